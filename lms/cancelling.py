"""Cancels questions: once a question is cancelled, no call to a language model or an index begins.

Calls under way finish, and their replies are cached.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

_STOPPED = threading.Event()
_CANCELLED: ContextVar[tuple[threading.Event, ...]] = ContextVar("knowgap_cancelled", default=(_STOPPED,))
_SLICE = 0.1
"""Seconds between two checks whether a pause is cancelled."""

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
