"""Dry runs: what a study costs at most, without asking the language model anything."""

from __future__ import annotations

import pytest
from compile_helpers import make_examples, make_retriever, reading_lm

from knowgap.compiling import DemoConfig, estimate_study
from knowgap.compiling.study.estimate import estimate_optimizer
from knowgap.programs.baselines.rag import RAG


def test_trials_demonstrations_and_scores_are_counted():
    examples, (lm, engine) = make_examples(12), reading_lm()
    program = RAG(make_retriever(examples))
    plain = estimate_study(program, devset=examples, n_trials=4, lm=lm, demos=DemoConfig(mode="none"))
    shown = estimate_study(program, devset=examples, trainset=examples[:6], n_trials=4, lm=lm, scoring=10)
    assert engine.calls == []
    assert (plain.calls, shown.calls) == (4 * 12, 4 * 12 + 6 + 10)
    assert shown.prompt_tokens > 3 * plain.prompt_tokens
    made = estimate_optimizer(program, "bootstrap", devset=examples, trainset=examples[:6], scoring=24)
    assert made.calls == made.questions == pytest.approx(30)
