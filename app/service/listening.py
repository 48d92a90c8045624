"""An HTTP server that runs in this thread or another, and ends within a grace period."""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import uvicorn
from typing_extensions import Self
from uvicorn.protocols.http.h11_impl import H11Protocol

from knowgap.errors import UsageError

try:
    import resource
except ImportError:  # a system without such limits
    resource = None

_LOG = logging.getLogger(__name__)
_MAX_CONNECTIONS = 2048
_FILES_PER_CONNECTION = 4
"""How many files the process must be able to open for each connection, so that the index and the model have enough."""
_BACKLOG = 256
_HEAD_TIMEOUT, _BODY_TIMEOUT = 10.0, 60.0
"""Seconds within which the head of a request is due, and its body after that."""
_TAKING_TIMEOUT = 60.0
"""Seconds within which a client has to read what the server has buffered of its response, which is at most 64 KiB."""
_FILES = 65_536
"""The limit on open files that is requested if the system has none."""
_QUIET = 60.0
"""Seconds between two log messages about connections that cannot be accepted."""


def raise_file_limit() -> None:
    """Let this process open as many files as the system allows it."""
    if resource is not None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _FILES if most == resource.RLIM_INFINITY else most
        with suppress(OSError, ValueError):  # a system may accept less than it states
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def most_connections() -> int:
    """How many connections a server of this process may have; half of them may wait for their clients."""
    files = _FILES if resource is None else resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return min(_MAX_CONNECTIONS, files // _FILES_PER_CONNECTION if files > 0 else _MAX_CONNECTIONS)


class HTTPServer(uvicorn.Server):
    """Serves an ASGI application at `url` until it is stopped; the arguments are those of `Server`.

    Raises:
        UsageError: the address cannot be used.
    """

    def __init__(self, application: Any, *, host: str, port: int, grace: float) -> None:
        try:
            self._socket = socket.create_server((host, port), backlog=_BACKLOG)
        except (OSError, OverflowError) as error:
            raise UsageError(f"cannot listen on {host}:{port} ({error}); choose another address or port") from error
        self.url = "http://{}:{}".format(*self._socket.getsockname())
        most = most_connections()
        config = uvicorn.Config(
            application,
            http=functools.partial(_Protocol, waiting={}, most=most // 2),  # pyright: ignore[reportArgumentType]  # any factory
            lifespan="off",
            ws="none",
            log_config=None,
            log_level="critical",
            access_log=False,
            timeout_graceful_shutdown=grace,  # pyright: ignore[reportArgumentType]  # takes fractions of a second
            backlog=most // 16,  # accepted at once: fewer than may wait, so that a request is read before it is cut off
        )
        super().__init__(config)
        self._thread: threading.Thread | None = None
        self._announce: Callable[[], object] = lambda: None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and announce it."""
        asyncio.get_running_loop().set_exception_handler(_AcceptFailures())
        await super().startup(sockets)
        self._socket.listen(_BACKLOG)  # uvicorn has set a smaller backlog
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


class _AcceptFailures:
    """Logs at most one line a minute about connections that cannot be accepted; asyncio logs hundreds a second."""

    _quiet_until = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not str(context.get("message", "")).startswith("socket.accept()"):
            loop.default_exception_handler(context)
        elif loop.time() >= self._quiet_until:
            self._quiet_until = loop.time() + _QUIET
            _LOG.error("new connections cannot be accepted: %s", context.get("exception"))


class _Protocol(H11Protocol):
    """Closes connections whose client does not send a whole request, or read its response, in time.

    If too many connections wait for their clients, it closes the one that has waited longest. uvicorn would wait
    forever, and such clients would block all others.

    Args:
        waiting: the connections of the server that wait for their clients, the one that has waited longest first.
        most: how many of them stay open.
    """

    def __init__(self, *args: Any, waiting: dict[_Protocol, asyncio.TimerHandle], most: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting, self._most = waiting, most

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._watch()

    def handle_events(self) -> None:
        super().handle_events()
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._forget()
        self._wait(_TAKING_TIMEOUT, self._cut)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget()

    def _watch(self) -> None:
        """Start the timeout for a request if one is due, and cancel it if the request is complete."""
        if self.flow.write_paused:
            return
        if self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body:
            self._forget()
        elif self not in self._waiting:
            self._wait(_HEAD_TIMEOUT, self._close_without_head)

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        self._waiting[self] = self.loop.call_later(seconds, then)
        if len(self._waiting) > self._most:
            next(iter(self._waiting))._cut()

    def _close_without_head(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._close()
        else:
            self._waiting[self] = self.loop.call_later(_BODY_TIMEOUT, self._close)

    def _close(self) -> None:
        """Close the connection when the client has read what was sent."""
        self._forget()
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._wait(_TAKING_TIMEOUT, self._cut)

    def _cut(self) -> None:
        self._forget()
        self.transport.abort()

    def _forget(self) -> None:
        if (timer := self._waiting.pop(self, None)) is not None:
            timer.cancel()
