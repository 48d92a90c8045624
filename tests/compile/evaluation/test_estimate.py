"""Dry runs: what asking questions would cost, without asking anything, or from three questions."""

import pytest
from compile_helpers import make_retriever, reading_lm

from knowgap.compiling.evaluation.estimate import Estimate, call_bound, estimate
from knowgap.errors import UsageError
from knowgap.programs import PROGRAMS, get_program
from knowgap.programs.baselines.rag import RAG
from knowgap.programs.migres import MIGRES


def test_an_upper_bound_asks_nothing_and_needs_no_index():
    found = estimate(RAG(top_k=5), 12, times=10, prices=(2.0, 8.0))
    assert (found.questions, found.calls, found.measured) == (120, 120, 0)  # one call for each question
    assert (found.prompt_tokens, found.completion_tokens) == (120 * (600 + 5 * 200), 120 * 150)
    assert found.money == pytest.approx((2 * found.prompt_tokens + 8 * found.completion_tokens) / 1e6)
    assert str(found).startswith("at most 120 calls, 192,000 prompt and 18,000 completion tokens, $0.53")
    assert estimate(RAG(), 12, demos=4).prompt_tokens == 5 * estimate(RAG(), 12).prompt_tokens
    assert estimate(RAG(), 12, ["judged_accuracy"]).calls == 24
    assert "price not known" in str(estimate(RAG(), 12))
    assert estimate(MIGRES(iterations=2), 12).calls < estimate(MIGRES(iterations=3), 12).calls


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_declares_as_many_calls_as_its_bound(name):
    assert get_program(name).calls.split()[-1] == str(call_bound(get_program(name)()).calls)


def test_three_questions_are_asked_to_measure(examples):
    lm, engine = reading_lm()
    found = estimate(RAG(make_retriever(examples)), examples, lm=lm, measure=True)
    assert len(engine.calls) == found.measured == 3
    assert (found.questions, found.calls) == (8, 8)
    assert found.prompt_tokens > found.completion_tokens > 0
    assert str(found).startswith("about 8 calls")


def test_estimates_add_up():
    one, unknown = estimate(RAG(), 2, prices=(1.0, 1.0)), estimate(RAG(), 3)
    both = one + one
    assert (both.questions, both.calls, both.money) == (4, 4, 2 * (one.money or 0))
    assert (one + unknown).money is None
    assert Estimate.of_calls(3, 1.2, 10, 5, lm="hf/any").model_dump() == {
        "questions": 3, "calls": 2, "prompt_tokens": 10, "completion_tokens": 5, "money": 0.0, "measured": 0,
    }  # fmt: skip


def test_nothing_to_estimate_from(examples):
    with pytest.raises(UsageError, match="nothing to ask"):
        estimate(RAG(), [])
    with pytest.raises(UsageError, match="pass them, not their number"):
        estimate(RAG(), 3, measure=True, lm=reading_lm()[0])
    with pytest.raises(UsageError, match="needs a retriever"):
        estimate(RAG(), examples, measure=True, lm=reading_lm()[0])


class Own(RAG):
    name = "own"


def test_a_program_of_ones_own_is_measured(examples):
    with pytest.raises(UsageError, match="how many calls own makes is not known before it runs: measure it"):
        estimate(Own(), 3)
    assert estimate(Own(make_retriever(examples)), examples, lm=reading_lm()[0], measure=True).calls == 8
