"""Requests of many threads in batches; those that are cancelled, or whose batch fails."""

import asyncio
import threading
from concurrent.futures import CancelledError

import pytest

from knowgap.lms import AsyncHFEngine, HFEngine
from knowgap.lms.local import batches
from knowgap.lms.local.batches import Batcher, Job
from tests.lms.local.tiny import QUESTIONS, ask, write_chat_model


class Recorder:
    """Runs the batches of a `Batcher`; holds each one until `go` is set, and then replies with its number."""

    def __init__(self, monkeypatch, size):
        self.batches, self.go, self.began, self.error = [], threading.Event(), threading.Event(), None
        monkeypatch.setattr(batches, "generate", self)
        self.batcher = Batcher(None, size)

    def __call__(self, local, jobs):
        self.batches.append(jobs)
        self.began.set()
        assert self.go.wait(30)
        if self.error is not None:
            raise self.error
        return [len(self.batches)] * len(jobs)

    def submit(self, length=1, **settings):
        return self.batcher.submit(Job([1] * length, 8, **settings))


def test_what_comes_while_a_batch_runs_forms_the_next_ones(monkeypatch):
    run = Recorder(monkeypatch, size=3)
    first = run.submit()
    assert run.began.wait(30)
    others = [run.submit(length) for length in (9, 2, 8, 3, 9)]
    odd, drawn = run.submit(stop=("end",)), run.submit(sampling={"temperature": 1.0})
    others[2].cancel()
    run.go.set()
    assert first.result(30) == 1
    assert [future.result(30) for future in (others[0], others[1], others[3], others[4])] == [2, 3, 2, 2]
    assert (odd.result(30), drawn.result(30)) == (4, 5)  # each is of another kind
    assert [len(batch) for batch in run.batches] == [1, 3, 1, 1, 1]


def test_a_batch_holds_so_many_tokens(monkeypatch):
    monkeypatch.setattr(batches, "MAX_BATCH_TOKENS", 20)
    run = Recorder(monkeypatch, size=9)
    run.submit()
    assert run.began.wait(30)
    futures = [run.submit(length) for length in (10, 10, 10, 30)]
    run.go.set()
    assert [future.result(30) for future in futures] == [2, 2, 3, 4]


def test_an_error_is_that_of_all_jobs_of_its_batch_and_of_no_other(monkeypatch):
    run = Recorder(monkeypatch, size=2)
    run.error = ValueError("no room")
    futures = [run.submit() for _ in range(2)]
    run.go.set()
    for future in futures:
        with pytest.raises(ValueError, match="no room"):
            future.result(30)
    run.error = None
    assert run.submit().result(30) == len(run.batches)


def test_a_batch_that_the_device_does_not_hold_is_run_in_halves(monkeypatch):
    import torch

    sizes = []

    def run(local, jobs):
        sizes.append(len(jobs))
        if len(jobs) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return [job.limit for job in jobs]

    monkeypatch.setattr(batches, "generate", run)
    batcher = Batcher(None, size=5)
    futures = [batcher.submit(Job([1], limit)) for limit in range(5)]
    assert [future.result(30) for future in futures] == [0, 1, 2, 3, 4]
    assert sizes == [5, 2, 3, 1, 2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_chat_model(tmp_path_factory.mktemp("models") / "endless", ends=False, max_position_embeddings=100_000)


def test_whoever_stops_waiting_leaves_the_batch(folder):
    engine = HFEngine(str(folder), device="cpu")
    engine.load()
    endless = ask(max_tokens=90_000)

    async def ask_and_leave():
        asyncs = AsyncHFEngine(engine)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncs.complete(endless), timeout=0.5)
        return await asyncio.gather(*(asyncs.complete(ask(question, max_tokens=3)) for question in QUESTIONS))

    replies = asyncio.run(ask_and_leave())
    assert all(reply.usage.output_tokens == 3 for reply in replies)
    _, waiting = engine.submit(endless)
    waiting.future.cancel()
    with pytest.raises(CancelledError):
        waiting.future.result(30)
    assert engine.complete(ask(max_tokens=2)).usage.output_tokens == 2


def test_a_thread_that_is_interrupted_cancels_what_it_waits_for(folder, monkeypatch):
    engine = HFEngine(str(folder), device="cpu")
    _, queue = engine.load()
    left = []

    def interrupt(timeout=None):
        raise KeyboardInterrupt

    def submit(asked):
        left.append(asked)
        monkeypatch.setattr(asked.future, "result", interrupt)
        return asked.future

    monkeypatch.setattr(queue, "submit", submit)
    for call in (lambda: engine.complete(ask()), lambda: engine.choose("who?", ["a", "b"])):
        with pytest.raises(KeyboardInterrupt):
            call()
    assert [asked.future.cancelled() for asked in left] == [True, True]
