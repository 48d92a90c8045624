"""Costs of a question by name."""

import pytest

from knowgap.compiling.evaluation.costs import COSTS, mean_costs
from knowgap.compiling.evaluation.metrics import METRICS
from knowgap.programs.trace.trace import Cost


def test_means_by_hand():
    first = Cost(lm_calls=4, prompt_tokens=100, completion_tokens=20, passages=9, iterations=3, seconds=1.5)
    second = Cost(lm_calls=1, cached_calls=1, passages=5, knowledge_tokens=50, retrievals=2)  # never iterates
    means = mean_costs([first, second])
    assert means.keys() == COSTS.keys()
    assert {name: mean for name, mean in means.items() if mean} == pytest.approx(
        {
            **{"lm_calls": 2.5, "cached_calls": 0.5, "tokens": 60, "prompt_tokens": 50, "completion_tokens": 10},
            **{"retrievals": 1, "passages": 7, "knowledge_tokens": 25, "iterations": 1.5},
            **{"passages_per_iteration": (9 / 3 + 5) / 2, "seconds": 0.75},
        }
    )


def test_no_cost_is_a_metric():
    assert not COSTS.keys() & METRICS.keys()
