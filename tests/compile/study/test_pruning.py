"""A trial is pruned if it does worse, or has nothing to gain; never while it may still win."""

import pytest

from knowgap.compiling.study.pruning import LEAST_GAIN, expected_gain

BEST = [float(n % 4 != 0) for n in range(100)]  # 0.75


def pruned_after(scores, best=BEST):
    """After how many questions the trial is pruned; None if it is not."""
    return next((n for n in range(5, len(best), 5) if expected_gain(scores[:n], best) < LEAST_GAIN), None)


@pytest.mark.parametrize(
    ("scores", "best", "pruned"),
    [
        ([0.0] * 100, BEST, [5]),  # loses everywhere
        (BEST, BEST, range(30, 61)),  # answers alike
        ([0.0] * 20, BEST[:20], [5, 10]),  # loses everywhere, among few questions
        ([1.0 if n % 8 == 0 else score for n, score in enumerate(BEST)], BEST, [None]),  # is better
        ([0.0 if n in (1, 2) else 1.0 for n in range(100)], BEST, [None]),  # falls back at first, then wins
    ],
)
def test_what_has_nothing_to_gain_ends_and_what_may_win_never(scores, best, pruned):
    assert pruned_after(scores, best) in pruned


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
    assert expected_gain(scores, best) == pytest.approx(gain, abs=1e-6)
