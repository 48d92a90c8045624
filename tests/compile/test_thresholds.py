"""δ: the largest at which enough questions have something to read."""

import pytest
from compile_helpers import Tunable, make_examples, make_retriever
from support import OverlapRetriever, TableReranker

from knowgap.compiling import compile
from knowgap.compiling.thresholds import calibrate_delta
from knowgap.errors import UsageError, ValueOutOfBounds
from knowgap.programs.hyperparameters import Real


class Filtering(Tunable):
    name = "filtering"
    delta = Real(None, "threshold", low=-30.0, high=30.0)


def filtering(examples, best):
    """A program with a reranker whose best passage for question i scores best[i]."""
    by_question = {example.question: value for example, value in zip(examples, best, strict=True)}
    reranker = TableReranker(lambda query, text: by_question[query] - 5 * ("Nothing" in text))
    return Filtering(make_retriever(examples), reranker=reranker)


def test_the_largest_threshold_that_covers_the_share():
    examples, reports = make_examples(10), []
    program = filtering(examples, [3.5, 2.25, 9.0, -1.0, 4.0, 0.5, 6.0, 7.0, 8.0, 5.0])
    delta = calibrate_delta(program, examples, share=0.8, progress=lambda *report: reports.append(report))
    assert delta == 2.25  # 9, 8, 7, 6, 5, 4, 3.5, 2.25 | 0.5, -1
    assert reports[-1][:2] == (10, 10)
    found = compile(program, examples, trainset=examples, optimizer="calibrate", share=0.8)
    assert found.program.delta == 2.25
    assert found.summary == "delta: None → 2.25"
    assert program.delta is None


def test_refusals():
    examples = make_examples(4)
    program = filtering(examples, [1.0] * 4)
    for error, asked, share in (
        (ValueOutOfBounds, program, 0),
        (UsageError, Tunable(program.retriever, reranker=program.reranker), 0.8),  # has no δ
        (UsageError, Filtering(OverlapRetriever([]), reranker=program.reranker), 0.8),  # finds nothing
        (ValueOutOfBounds, filtering(examples, [50.0] * 4), 0.8),
    ):
        with pytest.raises(error):
            calibrate_delta(asked, examples, share=share)
