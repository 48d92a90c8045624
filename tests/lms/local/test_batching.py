"""Requests of many threads in batches, and those whose batch fails."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from knowgap.lms.local import batches
from knowgap.lms.local.batches import Batcher, Job


class Recorder:
    """Runs the batches of a `Batcher`; holds each one until `go` is set, and then replies with its number."""

    def __init__(self, monkeypatch, size):
        self.batches, self.go, self.began, self.error = [], threading.Event(), threading.Event(), None
        monkeypatch.setattr(batches, "generate", self)
        self.batcher, self.pool = Batcher(None, size), ThreadPoolExecutor(1)

    def __call__(self, local, jobs):
        self.batches.append(jobs)
        self.began.set()
        assert self.go.wait(30)
        if self.error is not None:
            raise self.error
        return [len(self.batches)] * len(jobs)

    def hold(self):
        """A first job, alone in its batch, which is under way when this returns."""
        first = self.pool.submit(self.run, Job([1], 8))
        assert self.began.wait(30)
        return first

    def run(self, *jobs):
        return self.batcher.run(jobs)

    def after(self, first, *jobs):
        """The numbers of the batches of jobs that come while the first one is under way."""
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(self.run, *jobs)
            while len(self.batcher._waiting) < len(jobs):
                pass
            self.go.set()
            assert first.result(30) == [1]
            return found.result(30)


def lengths(*numbers):
    return [Job([1] * number, 8) for number in numbers]


def test_what_comes_while_a_batch_runs_forms_the_next_ones(monkeypatch):
    run = Recorder(monkeypatch, size=3)
    scored, drawn = Job([1], logprobs=True), Job([1], sampling={"temperature": 1.0})
    assert run.after(run.hold(), *lengths(9, 2, 3, 9), scored, drawn) == [2, 3, 2, 2, 4, 5]  # each is of another kind
    assert [len(batch) for batch in run.batches] == [1, 3, 1, 1, 1]


def test_a_batch_holds_so_many_tokens(monkeypatch):
    monkeypatch.setattr(batches, "MAX_BATCH_TOKENS", 20)
    run = Recorder(monkeypatch, size=9)
    assert run.after(run.hold(), *lengths(10, 10, 10, 30)) == [2, 2, 3, 4]


def test_an_error_is_that_of_all_jobs_of_its_batch_and_of_no_other(monkeypatch):
    run = Recorder(monkeypatch, size=2)
    run.error = ValueError("no room")
    run.go.set()
    failed = lengths(1, 1)
    with pytest.raises(ValueError, match="no room"):
        run.run(*failed)
    assert all(isinstance(job.future.exception(30), ValueError) for job in failed)
    run.error = None
    assert run.run(*lengths(1)) == [len(run.batches)]


def test_a_batch_that_the_device_does_not_hold_is_run_in_halves(monkeypatch):
    import torch

    sizes = []

    def run(local, jobs):
        sizes.append(len(jobs))
        if len(jobs) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return [job.limit for job in jobs]

    monkeypatch.setattr(batches, "generate", run)
    assert Batcher(None, size=5).run([Job([1], limit) for limit in range(5)]) == [0, 1, 2, 3, 4]
    assert sizes == [5, 2, 3, 1, 2]
