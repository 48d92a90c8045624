import random

import dspy
import pytest

from knowgap.compile.evaluation.metrics import get_metric, mrr, precision, recall
from knowgap.compile.evaluation.metrics.retrieval import passage_ids
from knowgap.errors import DataError
from knowgap.retrieval.passage import Hit, Passage

EXAMPLE = dspy.Example(question="?", answer="a", gold_ids=["g1", "g2"])


def found(*ids):
    return dspy.Prediction(answer="a", passages=[Passage(id=i, title="", text=i) for i in ids])


def test_by_hand():
    ranking = found("x", "g2", "y", "g1", "z")
    assert recall(EXAMPLE, ranking) == 1.0
    assert precision(EXAMPLE, ranking) == 2 / 5
    assert mrr(EXAMPLE, ranking) == 1 / 2
    assert get_metric("recall@2")(EXAMPLE, ranking) == 1 / 2
    assert get_metric("precision@2")(EXAMPLE, ranking) == 1 / 2
    assert get_metric("precision@4")(EXAMPLE, ranking) == 1 / 2
    assert get_metric("mrr@1")(EXAMPLE, ranking) == 0.0
    assert get_metric("recall@100")(EXAMPLE, ranking) == 1.0


@pytest.mark.parametrize("metric", [recall, precision, mrr])
def test_nothing_found_scores_0(metric):
    assert metric(EXAMPLE, found()) == 0.0
    assert metric(EXAMPLE, dspy.Prediction(answer="a")) == 0.0
    assert metric(EXAMPLE, found("x", "y")) == 0.0


@pytest.mark.parametrize("metric", [recall, precision, mrr])
@pytest.mark.parametrize("example", [dspy.Example(question="why?"), dspy.Example(question="why?", gold_ids=[])])
def test_without_gold_passages_it_refuses(metric, example):
    with pytest.raises(DataError, match=r"gold_ids.*'why\?'"):
        metric(example, found("x"))


def test_passages_come_in_every_shape_and_count_once():
    passage = Passage(id="g1", title="", text="t")
    shapes = [passage, Hit(passage, 1.0, 1), {"id": "g1"}, "g1"]
    assert passage_ids(shapes) == ["g1"]
    assert passage_ids(dspy.Prediction(passages=["b", "a", "b"])) == ["b", "a"]
    assert precision(EXAMPLE, ["g1", "g1", "x"]) == 1 / 2


def test_equal_to_a_count_by_hand_on_random_rankings():
    dice = random.Random(4)
    for _ in range(2000):
        pool = [f"p{n}" for n in range(12)]
        gold, ranking, k = (
            dice.sample(pool, dice.randint(1, 4)),
            dice.sample(pool, dice.randint(1, 8)),
            dice.randint(1, 9),
        )
        example, top = dspy.Example(question="?", gold_ids=gold), ranking[:k]
        right = [n for n, item in enumerate(top, start=1) if item in gold]
        assert recall(example, ranking, k=k) == len(right) / len(gold)
        assert precision(example, ranking, k=k) == len(right) / len(top)
        assert mrr(example, ranking, k=k) == (1 / right[0] if right else 0.0)
