"""An HTTP server that runs in this thread or another, and ends within a grace period."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

import uvicorn
from typing_extensions import Self
from uvicorn.protocols.http.h11_impl import H11Protocol

from knowgap.errors import UsageError

_MAX_CONNECTIONS = 256
_HEAD_TIMEOUT = 10.0  # seconds


class HTTPServer(uvicorn.Server):
    """Serves an ASGI application at `url` until it is stopped; the arguments are those of `Server`.

    Raises:
        UsageError: the address cannot be used.
    """

    def __init__(self, application: Any, *, host: str, port: int, grace: float) -> None:
        try:
            self._socket = socket.create_server((host, port), backlog=_MAX_CONNECTIONS)
        except (OSError, OverflowError) as error:
            raise UsageError(f"cannot listen on {host}:{port} ({error}); choose another port") from error
        self.url = "http://{}:{}".format(*self._socket.getsockname())
        config = uvicorn.Config(
            application,
            http=_Protocol,
            lifespan="off",
            ws="none",
            log_config=None,
            log_level="critical",
            access_log=False,
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_graceful_shutdown=grace,  # pyright: ignore[reportArgumentType]  # takes fractions of a second
        )
        super().__init__(config)
        self._thread: threading.Thread | None = None
        self._announce: Callable[[], object] = lambda: None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets)
        self._announce()

    def serve_forever(self, announce: Callable[[], object] = lambda: None) -> None:
        """Serve in this thread until `stop` is called in another, or until Ctrl-C or SIGTERM.

        `announce` is called once requests are taken and Ctrl-C ends the server in order.
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
        """Take no more requests; return when those in progress are answered or their grace is over."""
        self.should_exit = True
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Protocol(H11Protocol):
    """Closes a connection on which the head of a request is due for too long; uvicorn would wait for ever."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._expect_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def _expect_head(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(_HEAD_TIMEOUT, self._close_unless_asked)

    def _close_unless_asked(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
