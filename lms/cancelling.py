"""Cancels questions: once a question is cancelled, no call to a language model or an index begins.

Calls under way finish, and their replies are cached.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")

_STOPPED = threading.Event()
_CANCELLED: ContextVar[tuple[threading.Event, ...]] = ContextVar("knowgap_cancelled", default=(_STOPPED,))
_SLICE = 0.1
"""Seconds between two checks whether a pause is cancelled."""
_THREADS = ThreadPoolExecutor(256, thread_name_prefix="knowgap-question")
"""The threads of what is awaited; asyncio's own pool has too few for calls that mostly wait."""

stop_all_calls = _STOPPED.set
"""Cancel all questions of this process, present and future."""


class CallsCancelled(KeyboardInterrupt):
    """Raised in place of the next call of a cancelled question; no `except Exception` takes it for a failure."""


def run_cancellable(cancelled: threading.Event, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function; once `cancelled` is set, no call to a model or an index begins in it, or in its threads."""
    token = _CANCELLED.set((*_CANCELLED.get(), cancelled))
    try:
        return function(*args, **kwargs)
    finally:
        _CANCELLED.reset(token)


async def await_cancellable(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function in a thread, without blocking the event loop; once this is cancelled, so is the call."""
    cancelled = threading.Event()
    called = _THREADS.submit(copy_context().run, run_cancellable, cancelled, function, *args, **kwargs)
    try:
        return await asyncio.wrap_future(called)
    except asyncio.CancelledError:
        cancelled.set()
        raise


def check_cancelled() -> None:
    """Raise `CallsCancelled` if the question that is being answered in this thread is cancelled."""
    if any(event.is_set() for event in _CANCELLED.get()):
        raise CallsCancelled


def pause(seconds: float) -> None:
    """Wait; raise `CallsCancelled` as soon as the question is cancelled."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        check_cancelled()
        time.sleep(min(left, _SLICE))
    check_cancelled()
