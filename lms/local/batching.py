"""Gather the jobs of many threads into batches for one model.

A thread runs while there are jobs. Those that come while a batch is under way form the next one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import Any

from knowgap.lms.local.jobs import Job

__all__ = ["Batcher", "resolve"]

MAX_BATCH_TOKENS = 32_768
"""Tokens of the prompts of a batch, filled up to one length, unless a single one is longer."""

_QUIET = 0.01
"""Seconds without a new job after which a batch begins that is not full yet."""
_LONGEST_GATHERING = 0.1
"""Seconds after which it begins in any case."""


def resolve(future: Future[Any], result: Any) -> None:
    """Set the result of a future, or its exception, unless it was cancelled."""
    try:
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)
    except InvalidStateError:
        pass


class Batcher:
    """Runs jobs in batches, in the order in which they come.

    Args:
        run: runs a batch of jobs of one kind (see `kind`) and resolves their futures. An exception of it is that of
            those jobs that are not resolved.
        kind: jobs of one kind can be in one batch.
        size: the most jobs in a batch.
    """

    def __init__(self, run: Callable[[list[Job]], None], kind: Callable[[Job], object], size: int):
        self._run, self._kind, self._size = run, kind, size
        self._lock = threading.Lock()
        self._waiting: list[Job] = []
        self._running = False

    def submit(self, job: Job) -> Future[Any]:
        """Let a job wait for its batch; return its future, which can be cancelled at any time."""
        with self._lock:
            self._waiting.append(job)
            begin, self._running = not self._running, True
        if begin:
            threading.Thread(target=self._work, name="knowgap-local-model", daemon=True).start()
        return job.future

    def take(self, kind: object = None) -> list[Job]:
        """Remove the next batch from those that wait; empty if the first one is of another kind, or none waits.

        Jobs whose prompts are about as long as the first one's go with it.
        """
        with self._lock:
            self._waiting = [job for job in self._waiting if not job.future.cancelled()]
            if not self._waiting or (kind is not None and self._kind(self._waiting[0]) != kind):
                return []
            first, *others = self._waiting
            alike = [job for job in others if self._kind(job) == self._kind(first)]
            batch = _fitting(first, alike, self._size)
            taken = set(map(id, batch))
            self._waiting = [job for job in self._waiting if id(job) not in taken]
            return batch

    def _work(self) -> None:
        while True:
            self._gather()
            batch = self.take()
            if batch:
                self._run_batch(batch)
                continue
            with self._lock:
                if not self._waiting:
                    self._running = False
                    return

    def _gather(self) -> None:
        """Wait for jobs that come at the same time, such as those of threads that the last batch has answered."""
        end, waiting = time.monotonic() + _LONGEST_GATHERING, -1
        while waiting < len(self._waiting) < self._size and time.monotonic() < end:
            waiting = len(self._waiting)
            time.sleep(_QUIET)

    def _run_batch(self, batch: Sequence[Job]) -> None:
        try:
            self._run(list(batch))
            error: BaseException = RuntimeError("the local model gave no reply")
        except BaseException as raised:
            error = raised
        for job in batch:
            if not job.future.done():
                resolve(job.future, error)


def _fitting(first: Job, others: Sequence[Job], size: int) -> list[Job]:
    """The first job, and as many others as fit, those of about its length before the rest."""
    batch, longest = [first], first.length
    for job in sorted(others, key=lambda job: abs(job.length - first.length)):
        longest = max(longest, job.length)
        if len(batch) == size or longest * (len(batch) + 1) > MAX_BATCH_TOKENS:
            break
        batch.append(job)
    return batch
