"""Dry runs: what a study would cost, without asking the language model anything."""

from __future__ import annotations

import pytest
from compile_helpers import Tunable, make_examples, make_retriever, reading_lm

from knowgap.compiling import DemoConfig, StudyConfig, estimate_study
from knowgap.compiling.study.estimate import estimate_optimizer
from knowgap.errors import UsageError
from knowgap.programs.baselines.rag import RAG


@pytest.fixture
def examples():
    return make_examples(12)


def test_calls_are_scaled_up_and_nothing_is_asked(examples):
    lm, engine = reading_lm()
    estimate = estimate_study(RAG(make_retriever(examples)), devset=examples, n_trials=10, lm=lm)
    assert engine.calls == []
    assert (estimate.trials, estimate.questions, estimate.bootstrapping) == (10, 12, 0)
    assert estimate.calls == 10 * 12  # one call for each question
    assert estimate.measured == 16
    assert estimate.prompt_tokens > estimate.completion_tokens > 0
    assert estimate.money is None
    assert "at most 120 calls" in str(estimate)
    assert "price not known" in str(estimate)


def test_settings_that_cost_more_calls_count(examples):
    program = Tunable(make_retriever(examples))
    cheap = estimate_study(program, devset=examples, n_trials=10, study=StudyConfig(exclude=["careful"]))
    dear = estimate_study(program, devset=examples, n_trials=10)
    assert cheap.calls == 120 < dear.calls < 240
    assert dear.calls == estimate_study(program, devset=examples, n_trials=10).calls


def test_demonstrations_and_prices(examples):
    options = {"devset": examples, "n_trials": 4, "prices": (2.0, 8.0)}
    program = RAG(make_retriever(examples))
    plain = estimate_study(program, trainset=examples[:6], demos=DemoConfig(mode="none"), **options)
    assert plain.money == pytest.approx((2 * plain.prompt_tokens + 8 * plain.completion_tokens) / 1e6)
    shown = estimate_study(program, trainset=examples[:6], **options)
    assert (plain.bootstrapping, shown.bootstrapping) == (0, 6)
    assert shown.calls == 4 * 12 + 6
    assert shown.prompt_tokens > 3 * plain.prompt_tokens
    assert "$" in str(shown)


def test_an_optimizer_asks_its_training_questions_and_those_for_the_scores(examples):
    estimate = estimate_optimizer(
        RAG(make_retriever(examples)), "bootstrap", devset=examples, trainset=examples[:6], scoring=24
    )
    assert estimate.bootstrapping >= 6
    asked = estimate.trials * estimate.questions + estimate.bootstrapping + estimate.scoring
    assert estimate.calls == asked  # one call for each question


def test_nothing_to_estimate_from(examples):
    with pytest.raises(UsageError, match="nothing to ask"):
        estimate_study(RAG(make_retriever(examples)), devset=[])
