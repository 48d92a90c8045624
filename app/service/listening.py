"""An HTTP server that runs in this thread or another, and ends within a grace period."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import uvicorn
from typing_extensions import Self

from knowgap.errors import UsageError

_CONNECTIONS = 512
"""The most open connections; uvicorn answers further ones with 503. Most systems allow a process 1,024 files."""


class HTTPServer(uvicorn.Server):
    """Serves an ASGI application at `url` until it is stopped; the arguments are those of `Server`.

    Raises:
        UsageError: the address cannot be used.
    """

    def __init__(self, application: Any, *, host: str, port: int, grace: float) -> None:
        try:
            self._socket = socket.create_server((host, port))
        except (OSError, OverflowError) as error:
            raise UsageError(f"cannot listen on {host}:{port} ({error}); choose another address or port") from error
        self.url = "http://{}:{}".format(*self._socket.getsockname())
        config = uvicorn.Config(
            application,
            lifespan="off",
            ws="none",
            log_config=None,
            log_level="critical",
            access_log=False,
            limit_concurrency=_CONNECTIONS,
            timeout_graceful_shutdown=grace,  # pyright: ignore[reportArgumentType]  # takes fractions of a second
        )
        super().__init__(config)
        self._thread: threading.Thread | None = None
        self._announce: Callable[[], object] = lambda: None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and announce it."""
        await super().startup(sockets)
        self._announce()

    def serve_forever(self, announce: Callable[[], object] = lambda: None) -> None:
        """Serve in this thread until `stop` is called in another, or until Ctrl-C or SIGTERM.

        `announce` is called once requests are accepted and Ctrl-C shuts the server down gracefully.
        """
        self._announce = announce
        try:
            self.run(sockets=[self._socket])
        finally:
            self._socket.close()

    def start(self) -> Self:
        """Serve in another thread; returns the server itself."""
        self._thread = threading.Thread(target=self.serve_forever, name="knowgap server")
        self._thread.start()
        return self

    def stop(self) -> None:
        """Accept no more requests; return when those in progress are answered or the grace period is over."""
        self.should_exit = True
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
