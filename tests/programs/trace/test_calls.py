"""How the calls of a question are shared out under `max_calls`, and how the same request is made once."""

import functools
import math
import random
import threading
import time

import dspy
import pytest
from support import UNREADABLE, by_output, scripted_lm

from knowgap.programs.base import Program
from knowgap.programs.trace.recorder import TraceRecorder, current_recorder, recording, run_concurrently
from knowgap.programs.trace.steps import Malformed, Stopped
from knowgap.signatures import AnswerDirectly, SelfKnowledge


def limited(calls, concurrent=True):
    return TraceRecorder(time.perf_counter(), concurrent=concurrent, calls_left=calls)


# Shares.


@pytest.mark.parametrize(
    ("left", "leave", "branches", "shares"),
    [
        (7, 1, 3, [3, 3, 3]),  # two each, and the one that every branch must leave
        (6, 1, 3, [3, 3, 2]),  # the first ones get one more
        (2, 1, 3, [2, 1, 1]),
        (1, 1, 2, [1, 1]),  # nothing to share: the one that is left is left by all
        (0, 1, 2, [1, 1]),
        (5, 0, 3, [2, 2, 1]),
        (2, 0, 3, [1, 1, 0]),
        (7, 3, 2, [5, 5]),
        (4, 1, 1, [4]),  # a single branch gets all
        (math.inf, 1, 2, [math.inf, math.inf]),
    ],
)
def test_branches_get_shares_in_their_order(left, leave, branches, shares):
    forks = limited(left).fork_all([str(n) for n in range(branches)], leave)
    assert [fork.calls_left for fork in forks] == shares
    assert [fork.branch for fork in forks] == [str(n) for n in range(branches)]
    assert not any(fork.calls_refused for fork in forks)
    asked = [sum(fork.allot(leave=leave) for _ in range(20)) for fork in forks if fork.calls_left < math.inf]
    assert not asked or sum(asked) == max(0, left - leave)


@pytest.mark.parametrize("concurrent", [True, False])
def test_what_a_branch_does_not_ask_for_is_left_for_what_follows(concurrent):
    def ask(times):
        return [current_recorder().allot(leave=1) for _ in range(times)]

    with recording(limited(8, concurrent)) as recorder:
        assert run_concurrently([lambda: ask(3), lambda: ask(1), lambda: ask(0)]) == [[True] * 3, [True], []]
        assert (recorder.calls_left, recorder.calls_refused) == (4, False)
        assert run_concurrently([lambda: ask(1), lambda: ask(3)]) == [[True], [True, False, False]]
        assert (recorder.calls_left, recorder.calls_refused) == (2, True)
        assert run_concurrently([lambda: ask(3)], leave=0) == [[True, False, False]]
        assert recorder.allot()
        assert recorder.calls_left == 0


@pytest.mark.parametrize("seed", range(20))
def test_branches_of_branches_never_make_more_calls_and_the_same_in_turn_and_at_once(seed):
    def work(path, left, made):
        rng = random.Random(f"{seed} {path}")
        made += [path for _ in range(rng.randrange(3)) if current_recorder().allot(leave=1)]
        if left and rng.random() < 0.8:
            tasks = [functools.partial(work, f"{path}/{n}", left - 1, made) for n in range(rng.randrange(1, 5))]
            run_concurrently(tasks, [str(n) for n in range(len(tasks))])

    for most in range(1, 12):
        calls = []
        for concurrent in (True, False):
            made = []
            with recording(limited(most, concurrent)) as recorder:
                work("root", 3, made)
                assert recorder.allot(leave=0), "the call of the final answer is left"
            assert len(made) + 1 <= most
            assert recorder.calls_left == most - len(made) - 1
            calls.append(sorted(made))
        assert calls[0] == calls[1]


# The same request.


def test_a_request_that_fails_is_made_again():
    recorder = limited(9)
    with pytest.raises(ValueError, match="twice"):
        recorder.request_once("key", lambda: int("twice"))
    assert recorder.request_once("key", lambda: 2) == 2


@pytest.mark.parametrize("outcome", ["read", None, ValueError("failed")])
def test_branches_that_ask_the_same_at_once_wait_for_one_reply(outcome):
    recorder, made, begun, go = limited(9), [], threading.Event(), threading.Event()

    def request():
        made.append(1)
        begun.set()
        assert go.wait(20)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def first():
        return recorder.request_once("key", request)

    def second():
        assert begun.wait(20)
        threading.Timer(0.05, go.set).start()
        return recorder.request_once("key", request)

    with recording(recorder):
        if isinstance(outcome, Exception):
            with pytest.raises(ValueError, match="failed"):
                run_concurrently([first, second])
        else:
            assert run_concurrently([first, second]) == [outcome, outcome]
    assert made == [1]


# What a program makes of it.


class Thrice(Program):
    """Asks three times whether it knows, and answers."""

    name = "thrice"
    needs_retriever = False
    same = False
    config = None

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.gate = dspy.Predict(SelfKnowledge)
        self.answer = dspy.Predict(AnswerDirectly)

    def forward(self, question):
        given = {"config": self.config} if self.config else {}
        said = [
            self.ask(self.gate, leave=1, question=question if self.same else f"{question} {n}", **given)
            for n in range(3)
        ]
        self.record(Stopped(reason="done"))
        output = self.ask(self.answer, question=question, style="short", leave=0)
        return self.conclude(output.answer if output else "", [], said=[each is not None for each in said])


def run(knows="True", same=False, config=None, **kwargs):
    lm, engine = scripted_lm(by_output({"knows": lambda *_: {"knows": knows}, "answer": lambda *_: {"answer": "Oslo"}}))
    program = Thrice(**kwargs)
    program.same, program.config = same, config
    with dspy.context(lm=lm):
        return program(question="Which capital?"), engine


@pytest.mark.parametrize("most", [None, 1, 2, 3, 4, 5])
def test_a_call_that_is_not_allowed_gives_none_and_the_search_stopped_for_calls(most):
    prediction, engine = run(max_calls=most)
    asked = min((most or 4) - 1, 3)
    assert prediction.said == [n < asked for n in range(3)]
    assert (prediction.answer, len(engine.calls)) == ("Oslo", asked + 1)
    assert prediction.trace.stopped == ("calls" if asked < 3 else "done")


def test_asking_again_for_a_reply_that_cannot_be_read_does_not_count():
    lm, engine = scripted_lm(lambda outputs, _: UNREADABLE if "knows" in outputs else {"answer": "Oslo"})
    with dspy.context(lm=lm):
        prediction = Thrice(max_calls=3)(question="Which capital?")
    assert (prediction.said, prediction.answer) == ([False] * 3, "Oslo")
    assert len(prediction.trace.of(Malformed)) == 2  # the third was not allowed
    assert len(engine.calls) == prediction.trace.cost.lm_calls == 2 * 2 + 1


@pytest.mark.parametrize(
    ("config", "calls"), [(None, 1), ({"logprobs": True}, 1), ({"temperature": 1.0}, 3), ({"rollout_id": 2}, 3)]
)
def test_the_same_request_is_made_once_unless_it_is_a_sample(config, calls):
    prediction, engine = run(same=True, config=config)
    assert prediction.said == [True] * 3
    assert prediction.trace.cost.lm_calls == len(engine.calls) == calls + 1


def test_what_was_answered_for_one_question_is_asked_anew_for_the_next():
    lm, engine = scripted_lm(by_output({"knows": lambda *_: {"knows": True}, "answer": lambda *_: {"answer": "Oslo"}}))
    program = Thrice()
    with dspy.context(lm=lm):
        traces = [program(question="Which capital?").trace for _ in range(2)]
    assert [trace.cost.lm_calls for trace in traces] == [4, 4]
    assert len(engine.calls) == 8
