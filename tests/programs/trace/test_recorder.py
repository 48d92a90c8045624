"""Branches of a question: order, failures, nesting, and the longest chain of calls that had to wait."""

import functools
import threading
import time

import pytest

from knowgap.lms.cancelling import CallsCancelled, pause, run_cancellable
from knowgap.programs.trace import recorder as recorder_module
from knowgap.programs.trace.recorder import RECORDER, THREADS, TraceRecorder, recording, run_concurrently
from knowgap.programs.trace.steps import Reasoned


@pytest.fixture
def concurrent():
    return True


@pytest.fixture(autouse=True)
def recorder(concurrent):
    recorder = TraceRecorder(time.perf_counter(), concurrent=concurrent)
    with recording(recorder):
        yield recorder


def say(text):
    RECORDER.get().add(Reasoned(what="test", text=text))


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


@pytest.mark.parametrize("concurrent", [True, False])
def test_results_and_steps_are_in_the_order_of_the_tasks_under_the_names_of_their_branches(recorder):
    def outer(name):
        say(f"{name} before")
        run_concurrently([lambda n=n: say(f"{name} {n}") for n in range(2)], branches=["a", "b"])
        say(f"{name} after")
        return name

    assert run_concurrently([]) == []
    if not recorder.concurrent:
        assert set(run_concurrently([threading.get_ident] * 5)) == {threading.get_ident()}
    assert run_concurrently([lambda: outer("one"), lambda: outer("two")], branches=["1", "2"]) == ["one", "two"]
    assert [(step.branch, step.text) for step in recorder.steps] == [
        *[("1", "one before"), ("1/a", "one 0"), ("1/b", "one 1"), ("1", "one after")],
        *[("2", "two before"), ("2/a", "two 0"), ("2/b", "two 1"), ("2", "two after")],
    ]


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
