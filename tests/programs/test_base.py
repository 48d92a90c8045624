"""What every program inherits beyond the conformance suite: one reply to a request, and nothing after it is left."""

import asyncio
import threading
import time
from contextlib import nullcontext

import dspy
import pytest
from dspy.clients.base_lm import GLOBAL_HISTORY
from support import ScriptedEngine, TableRetriever, lm_of, play, scripted_lm

from knowgap.programs.base import Program
from knowgap.programs.baselines.iter_retgen import IterRetGen
from knowgap.programs.baselines.rag import Direct
from knowgap.programs.trace.recorder import TraceRecorder, recording, run_concurrently, threads
from knowgap.signatures import SelfKnowledge

QUESTION = "Who painted ships?"


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


def test_a_question_that_is_left_calls_nothing_more():
    held, free, told = threading.Event(), threading.Event(), []

    class Held(ScriptedEngine):
        def complete(self, request):
            held.set()
            free.wait(60)
            return super().complete(request)

    async def leave():
        program = IterRetGen(TableRetriever({}), iterations=3)
        asked = program.acall(question="Where?", listener=lambda step, _: told.append(step.kind))
        task = asyncio.ensure_future(asked)
        await asyncio.to_thread(held.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    engine = Held(lambda *_: {"answer": "Tarn"})
    with dspy.context(lm=lm_of(engine)):
        asyncio.run(leave())
    free.set()
    threads().shutdown()  # once all of it has ended
    threads.cache_clear()
    assert told.count("retrieved") == 1
    assert len(engine.calls) <= 1
