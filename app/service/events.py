"""Server-sent events, with signs of life for proxies and clients that give up on silent connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import Self

from knowgap.service.requests import Problem

_FIRST = 1.5
"""Seconds that the response waits for the first item, so that a refused question is answered with its status."""
_SILENCE = 15.0
"""Seconds after which a comment is sent; proxies close connections that are silent for 30 or 60 seconds."""
_COMMENT = b": still working on it\n\n"


class Events(StreamingResponse):
    """A response that sends items as they come; the generator behind them is closed at the end, however it ends.

    Args:
        items: the items; a `Problem` that the generator raises is the last one.
        written: makes the text of an item's event, or of a problem's.
    """

    def __init__(self, items: AsyncGenerator[Any, None], written: Callable[[Any], bytes]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(self._events(), media_type="text/event-stream", headers=headers)
        self._items, self._written = items, written
        self._next = asyncio.ensure_future(anext(items))

    async def begun(self) -> Self:
        """Wait a moment for the first item.

        Raises:
            Problem: the question is refused.
        """
        await asyncio.wait({self._next}, timeout=_FIRST)
        if self._next.done():
            self._next.result()
        return self

    async def _events(self) -> AsyncIterator[bytes]:
        if not self._next.done():
            yield _COMMENT
        while True:
            done, _ = await asyncio.wait({self._next}, timeout=_SILENCE)
            if not done:
                yield _COMMENT
                continue
            try:
                item = self._next.result()
            except StopAsyncIteration:
                return
            except Problem as problem:
                yield self._written(problem)
                return
            self._next = asyncio.ensure_future(anext(self._items))
            yield self._written(item)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._next.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration, Problem):
                await self._next
            await self._items.aclose()
