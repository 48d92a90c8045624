"""Means with bootstrap intervals, the paired comparison of two lists of scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel

SIGNIFICANT = 0.05


class Interval(BaseModel, extra="forbid"):
    """A mean with its 95% bootstrap interval over `n` questions.

    Where all scores are equal, it has no width; the true mean may still lie 3/n away (the rule of three: Hanley and
    Lippman-Hand, 1983).
    """

    mean: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


class Comparison(BaseModel, extra="forbid"):
    """After minus before, question by question.

    `difference` is the mean, from `low` to `high` its 95% bootstrap interval, `p_value` that of a two-sided paired
    permutation test, `p_corrected` the same corrected for the number of comparisons with one baseline (`holm`; of a
    comparison alone, they are equal); of the `n` questions, `after` scores higher on the `wins` and lower on the
    `losses`.
    """

    metric: str
    difference: float
    low: float
    high: float
    p_value: float
    p_corrected: float
    wins: int
    losses: int
    ties: int
    n: int

    def __str__(self) -> str:
        return (
            f"{self.metric} {self.difference:+.3f} [{self.low:+.3f}, {self.high:+.3f}], p = {self.p_value:.3f}, "
            f"{self.wins} better, {self.losses} worse, {self.ties} equal"
        )


def mean_interval(values: Sequence[float], seed: int = 0) -> Interval:
    """The mean of values with its 95% bootstrap interval (percentile method, scipy)."""
    from scipy.stats import bootstrap

    data = np.asarray(values, dtype=float)
    mean = low = high = float(data.mean())
    if data.size > 1 and np.ptp(data) > 0:
        found: Any = bootstrap((data,), np.mean, method="percentile", **_resampling(data.size, seed))
        low, high = map(float, found.confidence_interval)
    return Interval(mean=mean, low=low, high=high, n=int(data.size))


def _resampling(size: int, seed: int) -> dict[str, Any]:
    """How scipy draws 10,000 samples: reproducibly, and in batches that fit into memory."""
    return {"n_resamples": 10_000, "batch": max(1, 1_000_000 // size), "rng": np.random.default_rng(seed)}


def paired_comparison(metric: str, before: Sequence[float], after: Sequence[float], seed: int = 0) -> Comparison:
    """Compare two lists of scores of the same questions in the same order.

    The p-value is that of a two-sided permutation test that swaps the two scores of a question; it is exact for few
    questions and from 10,000 draws otherwise.
    """
    from scipy.stats import permutation_test

    gain = np.asarray(after, dtype=float) - np.asarray(before, dtype=float)
    interval, p_value = mean_interval(gain.tolist(), seed), 1.0
    if gain.size > 1 and np.any(gain):
        # one sample of differences: swapping the two scores of a question turns the sign of its difference
        options = _resampling(gain.size, seed)
        test: Any = permutation_test((gain,), np.mean, permutation_type="samples", vectorized=True, **options)
        p_value = float(test.pvalue)
    return Comparison(
        metric=metric,
        difference=interval.mean,
        low=interval.low,
        high=interval.high,
        p_value=p_value,
        p_corrected=p_value,
        wins=int((gain > 0).sum()),
        losses=int((gain < 0).sum()),
        ties=int((gain == 0).sum()),
        n=int(gain.size),
    )


def holm(comparisons: Iterable[Comparison]) -> None:
    """Set `p_corrected` of several comparisons with one baseline (Holm, 1979)."""
    ranked, highest = sorted(comparisons, key=lambda each: each.p_value), 0.0
    for rank, each in enumerate(ranked):
        highest = max(highest, min(1.0, (len(ranked) - rank) * each.p_value))
        each.p_corrected = highest
