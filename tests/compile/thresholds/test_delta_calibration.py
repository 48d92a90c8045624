"""δ: the largest at which enough questions have something to read."""

from __future__ import annotations

import random

import pytest
from compile_helpers import Tunable, make_examples, make_retriever
from support import OverlapRetriever, TableReranker

from knowgap.compile import calibrate
from knowgap.errors import UsageError, ValueOutOfBounds
from knowgap.programs.hyperparameters import OptionalReal


class Filtering(Tunable):
    name = "filtering"
    delta = OptionalReal(None, "threshold", low=-30.0, high=30.0)


def scored(examples, best):
    """A reranker whose best passage for question i scores best[i]."""
    by_question = {example.question: value for example, value in zip(examples, best, strict=True)}
    return TableReranker(lambda query, text: by_question[query] if "Nothing" not in text else by_question[query] - 5)


def test_the_largest_threshold_that_covers_the_share():
    examples = make_examples(10)
    best = [3.5, 2.25, 9.0, -1.0, 4.0, 0.5, 6.0, 7.0, 8.0, 5.0]
    program = Filtering(make_retriever(examples), reranker=scored(examples, best))
    seen = []
    found = calibrate(program, examples, share=0.8, progress=lambda *a: seen.append(a))
    assert found.delta == 2.25  # 9, 8, 7, 6, 5, 4, 3.5, 2.25 | 0.5, -1
    assert found.covered(found.delta) == 0.8
    assert found.covered(found.delta + 0.001) < 0.8
    assert calibrate(program, examples, share=1.0).delta == -1.0
    assert found.scores["q3"] == -1.0
    assert seen[-1][:2] == (10, 10)
    assert found.apply(program).delta == 2.25
    assert program.delta is None


def test_against_the_definition_by_trying_every_score():
    rng = random.Random(7)
    for share in (0.2, 0.5, 0.8, 0.9):
        examples = make_examples(13)
        best = [round(rng.uniform(-5, 10), 3) for _ in examples]
        found = calibrate(Filtering(make_retriever(examples), reranker=scored(examples, best)), examples, share=share)
        allowed = [b for b in best if sum(other >= b for other in best) / len(best) >= share]
        assert found.delta == pytest.approx(max(allowed), abs=1e-4)
        assert found.covered(found.delta) >= share


def test_refusals():
    examples = make_examples(4)
    reranker = scored(examples, [1.0] * 4)
    program = Filtering(make_retriever(examples), reranker=reranker)
    with pytest.raises(ValueOutOfBounds, match="share=0 is out of bounds"):
        calibrate(program, examples, share=0)
    with pytest.raises(UsageError, match="needs a delta"):
        calibrate(Tunable(make_retriever(examples), reranker=reranker), examples)
    with pytest.raises(UsageError, match="only 0 of 4 questions find a passage"):
        calibrate(Filtering(OverlapRetriever([]), reranker=reranker), examples)
    other = TableReranker(lambda q, t: 0.0)
    other.name = "another"
    with pytest.raises(UsageError, match="calibrated on 'table'"):
        calibrate(program, examples).apply(Filtering(program.retriever, reranker=other))
    far = Filtering(make_retriever(examples), reranker=scored(examples, [50.0] * 4))
    with pytest.raises(ValueOutOfBounds, match="delta=50"):
        calibrate(far, examples)
