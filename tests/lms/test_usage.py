"""What calls use: those that were paid for, and those that a cache answered."""

from __future__ import annotations

import contextvars
import functools
from concurrent.futures import ThreadPoolExecutor

import dspy
import numpy as np
import pytest
from dspy.clients.base_lm import GLOBAL_HISTORY
from support import scripted_lm

from knowgap.lms.metering import Usage, UsageTracker, dollars, token_prices, track_usage


def answering(**kwargs):
    return scripted_lm(lambda *_: {"answer": "Ada"}, **kwargs)[0]


def test_calls_from_a_cache_are_counted_apart():
    with dspy.context(lm=answering(cache=True)), track_usage(UsageTracker(prices=(2.0, 8.0))) as tracker:
        for _ in range(2):
            dspy.Predict("question -> answer")(question="Who was asked twice?")
    usage = tracker.usage
    assert (usage.calls, usage.cached_calls, usage.asked) == (1, 1, 2)
    assert (usage.prompt_tokens, usage.completion_tokens) == (
        usage.cached_prompt_tokens,
        usage.cached_completion_tokens,
    )
    assert usage.money == pytest.approx((2 * usage.prompt_tokens + 8 * usage.completion_tokens) / 1e6)
    assert usage.money > 0
    assert usage.unpriced_calls == 0


@pytest.mark.parametrize("setting", [{}, {"disable_history": True}, {"max_history_size": 0}])
def test_every_tracker_around_a_call_counts_it(setting):
    with dspy.context(lm=answering(), **setting):
        with track_usage(UsageTracker()) as outer, track_usage(UsageTracker()) as inner:
            dspy.Predict("question -> answer")(question="Who?")
        dspy.Predict("question -> answer")(question="Who else?")
    assert outer.usage == inner.usage
    assert (outer.usage.calls, outer.usage.unpriced_calls) == (1, 1)


def test_no_history_is_kept_where_none_is_wanted():
    """Neither by DSPy, nor by the language model and the predictor."""
    lm, predictor = answering(), dspy.Predict("question -> answer")
    GLOBAL_HISTORY.clear()  # DSPy keeps so many calls and no more: a full list does not grow

    def ask(number):
        with track_usage(UsageTracker()) as tracker:
            predictor(question=f"Who is number {number}?")
        return tracker.usage.calls

    with (
        dspy.context(lm=lm, disable_history=True),
        track_usage(UsageTracker()) as outer,
        ThreadPoolExecutor(16) as pool,
    ):
        tasks = [functools.partial(contextvars.copy_context().run, ask, number) for number in range(300)]
        assert [future.result() for future in [pool.submit(task) for task in tasks]] == [1] * 300
        assert outer.usage.calls == 300
        assert GLOBAL_HISTORY == []
    assert lm.history == predictor.history == []
    with dspy.context(lm=lm), track_usage(UsageTracker()):
        predictor(question="Who is remembered?")
    assert GLOBAL_HISTORY[-1] is lm.history[-1] is predictor.history[-1]


def test_calls_without_usage_count_as_paid_for():
    """A budget of calls would otherwise never end with a model that reports no tokens."""
    tracker = UsageTracker()
    for response in (None, ({"usage": None}, {"usage": None})):
        tracker.append({"usage": {}, "response": response})
    tracker.append({"usage": {"prompt_tokens": 3, "completion_tokens": None}, "cost": 0.5})
    tracker.add(Usage(cached_calls=1))
    expected = Usage(calls=3, cached_calls=1, prompt_tokens=3, money=0.5, unpriced_calls=2)
    assert tracker.usage == expected


def test_prices_come_from_the_table_of_dspy():
    assert token_prices("openai/gpt-4o") == pytest.approx((2.5, 10.0))
    assert token_prices("knowgap/extractive-5") == (0, 0)
    assert token_prices("openai/unheard-of") is None
    assert token_prices("") is None
    assert dollars(np.array([1e6, 2e6]), np.array([0.0, 1e6]), (2.0, 3.0)).tolist() == [2.0, 7.0]
