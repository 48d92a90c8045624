"""Found and shown, from traces whose figures are counted by hand."""

from __future__ import annotations

import dspy
import pytest

from knowgap.compiling.evaluation.metrics import EVIDENCE, get_metric
from knowgap.errors import DataError
from knowgap.programs.trace.steps import Retrieved
from knowgap.programs.trace.trace import Trace


def prediction(*hits: str, **shown: int) -> dspy.Prediction:
    steps = [Retrieved(queries=["q"], k=5, hits=[list(ids)]) for ids in hits]
    return dspy.Prediction(answer="x", trace=Trace(program="p", question="q", steps=steps, shown=shown))


@pytest.mark.parametrize(
    ("gold", "made", "scores"),
    [
        ("abc", prediction("axy", "bz", a=1, x=9, y=9, z=9), (2 / 3, 1 / 3, 1 / 4)),
        ("ab", prediction("ab", a=1, b=1), (1, 1, 1)),
        ("ab", prediction("abc"), (1, 0, 0)),
        ("ab", prediction(), (0, 0, 0)),
        ("ab", prediction("a", a=1, **{"model:1": 5}), (1 / 2, 1 / 2, 1)),
    ],
)
def test_by_hand(gold: str, made: dspy.Prediction, scores: tuple[float, float, float]):
    example = dspy.Example(question="q", gold_ids=list(gold))
    found = {name: get_metric(name)(example, made) for name in EVIDENCE}
    assert found == pytest.approx(dict(zip(("found", "shown", "shown_precision"), scores, strict=True)))


@pytest.mark.parametrize("name", EVIDENCE)
def test_no_score_without_gold_passages(name: str):
    with pytest.raises(DataError, match="names no gold passages"):
        get_metric(name)(dspy.Example(question="q", gold_ids=[]), prediction("a", a=1))
