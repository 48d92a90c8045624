"""What every program inherits beyond the conformance suite: one reply to a request, and nothing after it is left."""

import asyncio
import functools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import dspy
import pytest
from dspy.clients.base_lm import GLOBAL_HISTORY
from support import TableRetriever, play, scripted_lm

from knowgap.lms import cancelling
from knowgap.lms.cancelling import CallsCancelled, pause, run_cancellable
from knowgap.programs.base import Program
from knowgap.programs.baselines.iter_retgen import IterRetGen
from knowgap.programs.baselines.rag import Direct
from knowgap.programs.trace import recorder as recorder_module
from knowgap.programs.trace.recorder import THREADS, TraceRecorder, recording, run_concurrently
from knowgap.signatures import SelfKnowledge

QUESTION = "Who painted ships?"


@pytest.fixture(autouse=True)
def recorder():
    with recording(TraceRecorder(time.perf_counter(), concurrent=True)):
        yield


def test_a_question_leaves_nothing_where_no_history_is_wanted():
    """Neither in DSPy's history nor in its trace; an optimizer collects its own trace all the same."""
    GLOBAL_HISTORY.clear()  # DSPy keeps so many calls and no more: a full list does not grow
    dspy.settings.trace.clear()
    with dspy.context(lm=scripted_lm(lambda *_: {"answer": "Ada Moor"})[0], disable_history=True):
        Direct()(question=QUESTION)
        assert (GLOBAL_HISTORY, dspy.settings.trace) == ([], [])
        with dspy.context(trace=[]):
            Direct()(question=QUESTION)
            assert [inputs["question"] for _, inputs, _ in dspy.settings.trace] == [QUESTION]


@pytest.mark.parametrize("outcome", [None, ValueError("failed")])
def test_branches_that_ask_the_same_at_once_wait_for_one_reply_and_a_failed_request_is_made_again(outcome):
    recorder, made, go = TraceRecorder(time.perf_counter(), concurrent=True), [], threading.Event()

    def request():
        made.append(1)
        assert go.wait(20)
        if outcome is not None:
            raise outcome

    def ask():
        if made:
            threading.Timer(0.05, go.set).start()
        return recorder.request_once("key", request)

    def second():
        while not made:
            time.sleep(0.001)
        return ask()

    with recording(recorder), pytest.raises(ValueError, match="failed") if outcome else nullcontext():
        assert run_concurrently([ask, second]) == [None, None]
    assert (made, recorder.request_once("key", lambda: 2)) == ([1], 2 if outcome else None)


class Thrice(Program):
    """Asks the same three times."""

    needs_retriever = False

    def __init__(self, config):
        super().__init__()
        self.config, self.gate = config, dspy.Predict(SelfKnowledge)

    def forward(self, question):
        for _ in range(3):
            self.ask(self.gate, question=question, config=self.config)
        return self.conclude("Oslo", [])


@pytest.mark.parametrize(("config", "calls"), [({"logprobs": True}, 1), ({"temperature": 1.0}, 3)])
def test_the_same_request_is_made_once_unless_it_is_a_sample(config, calls):
    prediction, engine = play(Thrice(config), QUESTION, gate=True)
    assert prediction.trace.cost.lm_calls == len(engine.calls) == calls


def test_a_question_that_is_left_calls_nothing_more(monkeypatch):
    pool = ThreadPoolExecutor(1)
    monkeypatch.setattr(cancelling, "_THREADS", pool)
    held, free, told = threading.Event(), threading.Event(), []

    def hold(*_):
        held.set()
        free.wait(60)
        return {"answer": "Tarn"}

    async def leave():
        program = IterRetGen(TableRetriever({}), iterations=3)
        asked = program.acall(question="Where?", listener=lambda step, _: told.append(step.kind))
        task = asyncio.ensure_future(asked)
        await asyncio.to_thread(held.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    lm, engine = scripted_lm(hold)
    with dspy.context(lm=lm):
        asyncio.run(leave())
    free.set()
    pool.shutdown()  # once all of it has ended
    assert told.count("retrieved") == 1
    assert len(engine.calls) <= 1


# Branches of a question.


def test_first_failure_in_order_is_raised_after_all_have_ended():
    ended, other_failed = [], threading.Event()

    def fail_first():
        assert other_failed.wait(20)
        raise KeyError("in order first")

    def fail_later():
        other_failed.set()
        raise ValueError("in time first")

    tasks = [lambda: ended.append("well"), fail_first, fail_later, lambda: ended.append("well too")]
    with pytest.raises(KeyError, match="in order first"):
        run_concurrently(tasks)
    assert sorted(ended) == ["well", "well too"]


@pytest.mark.parametrize("threads", [20, THREADS])
def test_tasks_wait_for_tasks_of_their_own(monkeypatch, threads):
    """However deep and wide, and however few threads there may be."""
    monkeypatch.setattr(recorder_module, "THREADS", threads)
    before, most = threading.active_count(), 0

    def spread(depth):
        nonlocal most
        most = max(most, threading.active_count() - before)
        return sum(run_concurrently([functools.partial(spread, depth - 1)] * 4)) if depth else 1

    assert spread(5) == 1024
    assert most <= 2 * threads, "those that begin at the same moment may not see one another"
    assert threading.active_count() == before


def test_calls_under_way_are_waited_for_when_the_question_is_cancelled():
    cancelled, both_run, ended = threading.Event(), threading.Barrier(2), []

    def cancel():
        both_run.wait(20)
        cancelled.set()
        pause(20)

    def call():
        both_run.wait(20)
        time.sleep(0.3)  # a call that is under way
        ended.append("call")

    with pytest.raises(CallsCancelled):
        run_cancellable(cancelled, run_concurrently, [cancel, call])
    assert ended == ["call"]
