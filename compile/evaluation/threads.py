"""Items in several threads, their results in order."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from knowgap.errors import UsageError
from knowgap.lms.cancelling import run_cancellable

T = TypeVar("T")
R = TypeVar("R")


def map_ordered(
    function: Callable[[T], R], items: Sequence[T], num_threads: int, ahead: int | None = None
) -> Generator[R, None, None]:
    """Yield `function(item)` for all items in their order, computed by several threads.

    The threads run in copies of the caller's context, so DSPy's settings hold in them. If the caller stops early, or
    after Ctrl-C, items that have not been started are skipped, and those that are running make no further calls of a
    model or an index. After Ctrl-C, they are not waited for.

    `ahead` is how many items may be started before the first result is taken; default: all.
    """
    if num_threads < 1:
        raise UsageError(f"num_threads={num_threads}: at least one thread is needed")
    if num_threads == 1:
        yield from (function(item) for item in items)
        return
    pool = ThreadPoolExecutor(max_workers=num_threads, thread_name_prefix="knowgap-ask")
    started: deque[Future[R]] = deque()
    cancelled, waits = threading.Event(), True
    try:
        for item in items:
            run = contextvars.copy_context().run
            started.append(pool.submit(run, run_cancellable, cancelled, function, item))
            if ahead is not None and len(started) >= ahead:
                yield started.popleft().result()
        while started:
            yield started.popleft().result()
    except (KeyboardInterrupt, GeneratorExit) as stop:
        cancelled.set()
        waits = isinstance(stop, GeneratorExit)
        raise
    finally:
        pool.shutdown(wait=waits, cancel_futures=True)
