"""What every program inherits beyond the conformance suite: its place in DSPy, and one reply to the same request."""

import threading
import time
from contextlib import nullcontext

import dspy
import pytest
from dspy.clients.base_lm import GLOBAL_HISTORY
from support import UNREADABLE, scripted_lm

from knowgap.programs.base import Program
from knowgap.programs.baselines.rag import Direct
from knowgap.programs.trace.recorder import TraceRecorder, recording, run_concurrently
from knowgap.programs.trace.steps import Malformed, Stopped
from knowgap.signatures import AnswerDirectly, SelfKnowledge

QUESTION = "Who painted ships?"


# In DSPy's hands.


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


# Calls, under `max_calls` and of the same request.


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
    """Asks three times whether it knows, and answers."""

    needs_retriever = False

    def __init__(self, same=False, config=None, **kwargs):
        super().__init__(**kwargs)
        self.same, self.config = same, config or {}
        self.gate = dspy.Predict(SelfKnowledge)
        self.answer = dspy.Predict(AnswerDirectly)

    def forward(self, question):
        asked = [question if self.same else f"{question} {n}" for n in range(3)]
        said = [self.ask(self.gate, question=each, config=self.config) for each in asked]
        self.record(Stopped(reason="done"))
        output = self.ask(self.answer, question=question, style="short")
        return self.conclude(output.answer if output else "", [], said=[each is not None for each in said])


def run(program, knows):
    lm, engine = scripted_lm(lambda outputs, _: {"answer": "Oslo"} if "answer" in outputs else knows)
    with dspy.context(lm=lm):
        return program(question="Which capital?"), engine


def test_asking_again_for_a_reply_that_cannot_be_read_does_not_count():
    prediction, engine = run(Thrice(max_calls=3), UNREADABLE)
    assert (prediction.answer, prediction.trace.stopped) == ("Oslo", "calls")
    assert len(prediction.trace.of(Malformed)) == 2  # the third was not allowed
    assert len(engine.calls) == prediction.trace.cost.lm_calls == 2 * 2 + 1


@pytest.mark.parametrize(("config", "calls"), [({"logprobs": True}, 1), ({"temperature": 1.0}, 3)])
def test_the_same_request_is_made_once_unless_it_is_a_sample(config, calls):
    prediction, engine = run(Thrice(same=True, config=config), {"knows": True})
    assert prediction.said == [True] * 3
    assert prediction.trace.cost.lm_calls == len(engine.calls) == calls + 1
