"""Run independent tasks in threads whose number is bounded, also where tasks start tasks of their own."""

from __future__ import annotations

import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from knowgap.programs.replies.cancelling import run_cancellable

__all__ = ["HELPERS", "run_in_threads"]

T = TypeVar("T")

HELPERS = 512
"""How many threads may help those that answer the questions of this process, at any moment."""

_free = threading.BoundedSemaphore(HELPERS)


def _renew() -> None:
    global _free
    _free = threading.BoundedSemaphore(HELPERS)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)  # a forked process has none of the threads


def run_in_threads(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Run tasks in this thread and in helping ones, each in a copy of the present context; return their results.

    Helpers take tasks in order until none is left, and end. This thread does the same, so a task that no thread is free
    for runs here. A thread thus waits only for tasks that are running, and tasks may start tasks of their own to any
    depth without a deadlock.

    Raises:
        BaseException: the error of the first task that failed, after all have ended. If this thread is interrupted,
            no further task begins, and those that run are not waited for, and call no model and no index.
    """
    waiting = deque(enumerate([(contextvars.copy_context(), task) for task in tasks]))
    results: dict[int, T] = {}
    errors: dict[int, BaseException] = {}
    interrupted = threading.Event()

    def work() -> None:
        while waiting:
            try:
                position, (context, task) = waiting.popleft()
            except IndexError:  # another thread took the last one
                return
            try:
                results[position] = context.run(run_cancellable, interrupted, task)
            except BaseException as error:
                errors[position] = error
                if not isinstance(error, Exception):  # an interrupt, or the end of the process
                    waiting.clear()
                    raise

    def help_out() -> None:
        with suppress(BaseException):  # it is among the errors
            work()
        free.release()

    free, helpers = _free, list[threading.Thread]()
    try:
        while len(helpers) < len(tasks) - 1 and free.acquire(blocking=False):
            helper = threading.Thread(target=help_out, name="knowgap", daemon=True)
            try:
                helper.start()
            except RuntimeError:  # the system gives no more threads
                free.release()
                break
            helpers.append(helper)
        work()
        for helper in helpers:
            helper.join()
    except BaseException:
        interrupted.set()
        waiting.clear()
        raise
    for _, error in sorted(errors.items()):
        raise error
    return [results[position] for position in range(len(tasks))]
