"""Ask a local model from many threads: each job goes the way that suits it, in batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from knowgap.lms.local.batching import Batcher, resolve
from knowgap.lms.local.continuous import ContinuousBatching
from knowgap.lms.local.jobs import Job, ScoringJob
from knowgap.lms.local.labels import score_continuations
from knowgap.lms.local.loading import LocalModel
from knowgap.lms.local.padded import generate_padded

__all__ = ["ModelQueue"]


class ModelQueue:
    """What a model is asked, in batches; one batch at a time.

    Args:
        local: the model.
        continuous: use continuous batching where the model and the job allow it.
        batch_size: the most jobs in a padded batch.
    """

    def __init__(self, local: LocalModel, *, continuous: bool, batch_size: int):
        self._local = local
        self._continuous = ContinuousBatching(local) if continuous else None
        self._batcher = Batcher(self._run, self._kind, batch_size)

    def submit(self, job: Job) -> Future[Any]:
        """Let a job wait for its batch; return its future, which can be cancelled at any time."""
        return self._batcher.submit(job)

    def _kind(self, job: Job) -> str:
        if isinstance(job, ScoringJob):
            return "score"
        return "continuous" if self._continuous is not None and self._continuous.accepts(job) else "padded"

    def _run(self, batch: list[Job]) -> None:
        kind = self._kind(batch[0])
        jobs: list[Any] = batch
        if kind == "continuous" and self._continuous is not None:
            jobs = self._continuous.run(jobs, lambda: self._batcher.take("continuous"))
        _run_parts(score_continuations if kind == "score" else generate_padded, self._local, jobs)


def _run_parts(run: Callable[[LocalModel, Sequence[Any]], Sequence[Any]], local: LocalModel, jobs: list[Any]) -> None:
    """Run a batch, in halves where the memory of the device does not hold it whole."""
    import torch

    if not jobs:
        return
    try:
        results = run(local, jobs)
    except torch.OutOfMemoryError:
        if len(jobs) == 1:
            raise
        half = len(jobs) // 2
        _run_parts(run, local, jobs[:half])
        _run_parts(run, local, jobs[half:])
        return
    for job, result in zip(jobs, results, strict=True):
        resolve(job.future, result)
