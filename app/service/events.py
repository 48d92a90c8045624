"""Server-sent events, with signs of life for proxies and clients that give up on silent connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import Self

from knowgap.service.requests import Problem

_FIRST = 1.5
"""Seconds that the response waits for the first event, so that a refused question is answered with its status."""
_SILENCE = 15.0
"""Seconds after which a comment is sent; proxies close connections that are silent for 30 or 60 seconds."""
_COMMENT = b": still working on it\n\n"


class Events(StreamingResponse):
    """A response that sends the steps of an answer as they happen, then the answer. Its end ends the answering.

    Args:
        answering: finds the answer, and calls what it is given with each step.
        written: makes an event of its name, `step`, `answer` or `error`, and of its content.
    """

    def __init__(self, answering: Callable[..., Awaitable[Any]], written: Callable[[str, Any], bytes]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(self._events(), media_type="text/event-stream", headers=headers)
        self._written, self._first = written, None
        self._told: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self._task = asyncio.ensure_future(self._answer(answering))

    async def _answer(self, answering: Callable[..., Awaitable[Any]]) -> None:
        try:
            last = "answer", await answering(tell=lambda step: self._told.put_nowait(("step", step)))
        except Exception as error:
            last = "error", Problem.of(error)
        self._told.put_nowait(last)

    async def begun(self) -> Self:
        """Wait a moment for the first event.

        Raises:
            Problem: the question is refused.
        """
        self._first = await self._next(_FIRST)
        if self._first is not None and self._first[0] == "error":
            raise self._first[1]
        return self

    async def _next(self, seconds: float) -> tuple[str, Any] | None:
        with suppress(asyncio.TimeoutError):
            return await asyncio.wait_for(self._told.get(), seconds)
        return None

    async def _events(self) -> AsyncIterator[bytes]:
        event = self._first
        while event is None or event[0] == "step":
            yield _COMMENT if event is None else self._written(*event)
            event = await self._next(_SILENCE)
        yield self._written(event[0], event[1].record() if event[0] == "error" else event[1])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
