"""The gold passages that an answer rests on, and those found and shown on the way, counted by hand."""

from __future__ import annotations

from collections.abc import Sequence

import dspy
import pytest

from knowgap.compiling.evaluation.metrics import EVIDENCE, get_metric
from knowgap.compiling.evaluation.metrics.retrieval import passage_ids, precision
from knowgap.errors import DataError
from knowgap.programs.trace.steps import Answered, Retrieved, Step
from knowgap.programs.trace.trace import Trace
from knowgap.retrieval.passage import Hit, Passage

EXAMPLE = dspy.Example(question="?", answer="a", gold_ids=["g1", "g2"])


def found(*ids):
    trace = Trace(program="p", question="q", steps=[])
    return dspy.Prediction(answer="a", passages=[Passage(id=i, title="", text=i) for i in ids], trace=trace)


def test_by_hand():
    ranking = found("x", "g2", "y", "g1", "z")
    scores = {"recall": 1, "precision": 2 / 5, "mrr": 1 / 2, "recall@2": 1 / 2, "precision@2": 1 / 2, "mrr@1": 0}
    scores |= {"precision@4": 1 / 2, "recall@100": 1}
    assert {name: get_metric(name)(EXAMPLE, ranking) for name in scores} == scores


def test_parts_of_a_split_document_are_its_passages_and_count_as_one():
    parts = found("x", "g1#0123456789", "g1#abcdef0123")
    assert {name: get_metric(name)(EXAMPLE, parts) for name in ("recall", "precision", "mrr")} == {
        **{"recall": 1 / 2, "precision": 2 / 3, "mrr": 1 / 2},
    }


@pytest.mark.parametrize("name", ["recall", "precision", "mrr", *EVIDENCE])
def test_nothing_found_scores_0_and_no_gold_passages_are_refused(name):
    metric = get_metric(name)
    if name not in EVIDENCE:
        for prediction in (found(), dspy.Prediction(answer="a"), found("x", "y")):
            assert metric(EXAMPLE, prediction) == 0.0
    for example in (dspy.Example(question="why?"), dspy.Example(question="why?", gold_ids=[])):
        with pytest.raises(DataError, match=r"gold_ids.*'why\?'"):
            metric(example, found("x"))


def test_passages_come_in_every_shape_and_count_once():
    passage = Passage(id="g1", title="", text="t")
    shapes = [passage, Hit(passage, 1.0, 1), "g1"]
    assert passage_ids(shapes) == ["g1"]
    assert passage_ids(dspy.Prediction(passages=["b", "a", "b"])) == ["b", "a"]
    assert precision(EXAMPLE, ["g1", "g1", "x"]) == 1 / 2


def prediction(*hits: str, used: Sequence[str] = (), **shown: int) -> dspy.Prediction:
    steps: list[Step] = [Retrieved(queries=["q"], k=5, hits=[list(ids)]) for ids in hits]
    steps.append(Answered(answer="x", passages=list(used)))
    return dspy.Prediction(answer="x", trace=Trace(program="p", question="q", steps=steps, shown=shown))


@pytest.mark.parametrize(
    ("gold", "made", "scores"),
    [
        ("abc", prediction("axy", "bz", used="ax", a=1, x=9, y=9, z=9), (2 / 3, 1 / 3, 1 / 3, 1 / 4)),
        ("ab", prediction("ab", used="b", a=1, b=1), (1, 1, 1 / 2, 1)),
        ("ab", prediction("abc", used="ab"), (1, 0, 0, 0)),
        ("ab", prediction(), (0, 0, 0, 0)),
        ("ab", prediction("a", used=["model:1"], a=1, **{"model:1": 5}), (1 / 2, 1 / 2, 0, 1)),
    ],
)
def test_found_shown_and_used_by_hand(gold: str, made: dspy.Prediction, scores: tuple[float, float, float, float]):
    example = dspy.Example(question="q", gold_ids=list(gold))
    found = {name: get_metric(name)(example, made) for name in EVIDENCE}
    assert found == pytest.approx(dict(zip(("found", "shown", "used", "shown_precision"), scores, strict=True)))
