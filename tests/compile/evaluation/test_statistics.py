"""Intervals, paired tests, their correction, and mean costs."""

import pytest

from knowgap.compiling.evaluation.metrics import METRICS
from knowgap.compiling.evaluation.provenance import Provenance
from knowgap.compiling.evaluation.results import COSTS, Evaluation
from knowgap.compiling.evaluation.runner import QuestionRecord
from knowgap.compiling.evaluation.statistics import holm, mean_interval, paired_comparison
from knowgap.programs.trace.trace import Cost


def test_intervals_are_seeded():
    interval = mean_interval([1.0, 0.0, 0.0] * 20, seed=3)
    assert interval == mean_interval([1.0, 0.0, 0.0] * 20, seed=3)
    assert (interval.low, interval.high) == (pytest.approx(0.21, abs=0.02), pytest.approx(0.45, abs=0.02))  # ± 1.96 SE
    assert [mean_interval([1.0] * n).low for n in (1, 12)] == [1.0, 1.0]


def test_holm_corrects_the_smallest_most():
    equal = paired_comparison("f1", [0.0], [0.0])
    pairs = [equal.model_copy(update={"p_value": p}) for p in (0.04, 0.01, 0.03)]
    holm(pairs)
    assert [pair.p_corrected for pair in pairs] == pytest.approx([0.06, 0.03, 0.06])


def test_means_by_hand():
    first = Cost(lm_calls=4, prompt_tokens=100, completion_tokens=20, passages=9, iterations=3, seconds=1.5)
    second = Cost(lm_calls=1, cached_calls=1, passages=5, knowledge_tokens=50, retrievals=2)  # never iterates
    records = [QuestionRecord(id="a", cost=first, scores={"f1": 1.0}), QuestionRecord(id="b", cost=second)]
    records.append(QuestionRecord(id="c", cost=first, error="failed"))
    means = Evaluation(records=records, metrics=["f1"], provenance=Provenance()).costs()
    assert means.keys() == COSTS.keys()
    assert {name: mean for name, mean in means.items() if mean} == pytest.approx(
        {
            **{"lm_calls": 2.5, "cached_calls": 0.5, "tokens": 60, "prompt_tokens": 50, "completion_tokens": 10},
            **{"retrievals": 1, "passages": 7, "knowledge_tokens": 25, "iterations": 1.5},
            **{"seconds": 0.75},
        }
    )
    assert not COSTS.keys() & METRICS.keys()
