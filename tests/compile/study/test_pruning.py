"""A trial is pruned if it does worse, or has nothing to gain; never while it may still win."""

from __future__ import annotations

import random
from statistics import fmean

import pytest

from knowgap.compile.study.pruning import Pruner

BEST = [float(n % 4 != 0) for n in range(100)]  # 0.75


def pruned_after(scores, best=BEST, startup=15):
    """After how many questions the trial is pruned; None if it is not."""
    pruner = Pruner(best, startup)
    return next((n for n in range(5, len(best), 5) if pruner.should_prune(scores[:n])), None)


def test_a_trial_that_loses_everywhere_ends_at_once():
    assert pruned_after([0.0] * 100) == 15


def test_one_that_answers_alike_ends_half_way():
    assert 30 <= pruned_after(BEST) <= 60


def test_one_that_wins_is_never_pruned_after():
    better = [1.0 if n % 8 == 0 else score for n, score in enumerate(BEST)]
    assert pruned_after(better) is None


def test_one_that_falls_back_may_still_win():
    """Two losses early on, then wins throughout."""
    late = [0.0 if n in (1, 2) else 1.0 for n in range(100)]
    assert pruned_after(late) is None


def test_nothing_ends_before_the_startup():
    assert pruned_after([0.0] * 100, startup=40) == 40


@pytest.mark.parametrize(
    ("seen", "left", "gain"),
    [
        # One win and one loss are added to what was seen. All ties: variance 2 / 4, spread sqrt(2 * 0.5 * 1.5), which
        # is 1.224745; gain 1.224745 * 0.398942 / 4.
        ([0.0, 0.0], 2, 0.122151),
        # Nothing left: what is there.
        ([1.0, 0.0], 0, 0.5),
        ([-1.0, 0.0], 0, 0.0),
    ],
)
def test_the_expected_gain_by_hand(seen, left, gain):
    best = [0.0 if d > 0 else 1.0 if d < 0 else 0.5 for d in seen] + [0.5] * left
    scores = [b + d for b, d in zip(best, seen, strict=False)]
    assert Pruner(best, 1).expected_gain(scores) == pytest.approx(gain, abs=1e-6)


def test_little_is_lost():
    """Of the trials that would have ended clearly ahead, few are pruned."""
    draw = random.Random(0)
    lost = []
    for _ in range(200):
        gain = draw.uniform(0.03, 0.15)
        trial = [s if draw.random() > 0.3 else float(draw.random() < 0.75 + gain / 0.3) for s in BEST]
        ahead = fmean(trial) - fmean(BEST)
        if ahead > 0.03:
            lost.append(pruned_after(trial) is not None)
    assert len(lost) > 80
    assert fmean(lost) < 0.15
