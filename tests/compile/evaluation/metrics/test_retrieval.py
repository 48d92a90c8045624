import dspy
import pytest

from knowgap.compiling.evaluation.metrics import get_metric, mrr, precision, recall
from knowgap.compiling.evaluation.metrics.retrieval import passage_ids
from knowgap.errors import DataError
from knowgap.retrieval.passage import Hit, Passage

EXAMPLE = dspy.Example(question="?", answer="a", gold_ids=["g1", "g2"])


def found(*ids):
    return dspy.Prediction(answer="a", passages=[Passage(id=i, title="", text=i) for i in ids])


def test_by_hand():
    ranking = found("x", "g2", "y", "g1", "z")
    scores = {"recall": 1, "precision": 2 / 5, "mrr": 1 / 2, "recall@2": 1 / 2, "precision@2": 1 / 2, "mrr@1": 0}
    scores |= {"precision@4": 1 / 2, "recall@100": 1}
    assert {name: get_metric(name)(EXAMPLE, ranking) for name in scores} == scores


@pytest.mark.parametrize("metric", [recall, precision, mrr])
def test_nothing_found_scores_0_and_no_gold_passages_are_refused(metric):
    for prediction in (found(), dspy.Prediction(answer="a"), found("x", "y")):
        assert metric(EXAMPLE, prediction) == 0.0
    for example in (dspy.Example(question="why?"), dspy.Example(question="why?", gold_ids=[])):
        with pytest.raises(DataError, match=r"gold_ids.*'why\?'"):
            metric(example, found("x"))


def test_passages_come_in_every_shape_and_count_once():
    passage = Passage(id="g1", title="", text="t")
    shapes = [passage, Hit(passage, 1.0, 1), {"id": "g1"}, "g1"]
    assert passage_ids(shapes) == ["g1"]
    assert passage_ids(dspy.Prediction(passages=["b", "a", "b"])) == ["b", "a"]
    assert precision(EXAMPLE, ["g1", "g1", "x"]) == 1 / 2
