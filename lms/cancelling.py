"""Cancel questions: no call to a language model or an index begins after that.

A question is cancelled where its `acall` is, or where the run is interrupted that it belongs to; `stop_all_calls`
cancels all questions of the process. Calls under way come to their end, and their replies are cached.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

_STOPPED = threading.Event()
_CANCELLED: ContextVar[tuple[threading.Event, ...]] = ContextVar("knowgap_cancelled", default=())
_SLICE = 0.1
"""Seconds between two looks whether a pause is cancelled."""


class CallsCancelled(KeyboardInterrupt):
    """Raised instead of the next call of a question that was cancelled.

    It is a `KeyboardInterrupt`, so that nothing takes it for a failure of the question.
    """


def run_cancellable(cancelled: threading.Event, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function; once `cancelled` is set, no call to a model or an index begins in it, or in its threads."""
    token = _CANCELLED.set((*_CANCELLED.get(), cancelled))
    try:
        return function(*args, **kwargs)
    finally:
        _CANCELLED.reset(token)


def stop_all_calls() -> None:
    """Cancel all questions of this process, those to come as well."""
    _STOPPED.set()


def check_cancelled() -> None:
    """Do nothing, unless the question that is being answered in this thread is cancelled.

    Raises:
        CallsCancelled: it is.
    """
    if _STOPPED.is_set() or any(event.is_set() for event in _CANCELLED.get()):
        raise CallsCancelled


def pause(seconds: float) -> None:
    """Wait; the wait ends early if the question is cancelled.

    Raises:
        CallsCancelled: the question is cancelled.
    """
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        check_cancelled()
        time.sleep(min(left, _SLICE))
    check_cancelled()
