"""What few questions tell: computed from the scores and their number, and said where it is little."""

from __future__ import annotations

import pytest

from knowgap.compiling.evaluation.statistics import (
    Interval,
    few_questions,
    mean_interval,
    paired_comparison,
    undecidable,
)


def test_equal_scores_are_not_known_exactly():
    interval = mean_interval([1.0] * 12)
    assert (interval.low, interval.high) == (1.0, 1.0)
    assert interval.margin == 0.25  # the rule of three
    assert mean_interval([0.0] * 2).margin == 1.0
    assert Interval(mean=0.5, low=0.3, high=0.7, n=50).margin == pytest.approx(0.2)


def test_few_questions_are_called_few_and_many_are_not():
    few, many = mean_interval([1.0, 0.0] * 6), mean_interval([1.0, 0.0] * 300)
    assert few_questions([many]) == few_questions([]) == ""
    assert few_questions([many, few]) == f"few questions (12): scores are known to within ±{few.margin:.2f} only"
    assert few_questions([few], "points").endswith(f"±{100 * few.margin:.0f} points only")
    assert few.margin == pytest.approx(0.98 / 12**0.5, abs=0.05)  # 1.96 standard errors of a fair coin


@pytest.mark.parametrize(("differing", "decidable"), [(0, False), (5, False), (6, True)])
def test_so_few_differences_decide_nothing(differing: int, decidable: bool):
    comparison = paired_comparison("f1", [0.0] * 12, [1.0] * differing + [0.0] * (12 - differing))
    assert comparison.decidable is decidable is (comparison.p_value < 0.05)
    said = "where fewer than 6 questions differ, no difference can be significant (p < 0.05)"
    assert undecidable([comparison]) == ("" if decidable else said)
