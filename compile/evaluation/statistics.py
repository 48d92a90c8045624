"""Means with bootstrap intervals, the paired comparison of two lists of scores, and the Pareto front."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

__all__ = ["Comparison", "Interval", "mean_interval", "paired_comparison", "pareto_front"]

T = TypeVar("T")
_RESAMPLES = 10_000
_CONFIDENCE = 0.95


class Interval(BaseModel, extra="forbid"):
    """A mean with its 95% bootstrap interval over `n` questions."""

    mean: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


class Comparison(BaseModel, extra="forbid"):
    """After minus before, question by question.

    Attributes:
        metric: the scores that were compared.
        difference: mean of the differences.
        low: lower end of its 95% bootstrap interval.
        high: upper end.
        p_value: of a paired permutation test, two-sided.
        wins: questions on which `after` scores higher.
        losses: questions on which it scores lower.
        ties: the rest.
        n: number of questions.
    """

    metric: str
    difference: float
    low: float
    high: float
    p_value: float
    wins: int
    losses: int
    ties: int
    n: int

    def __str__(self) -> str:
        return (
            f"{self.metric} {self.difference:+.3f} [{self.low:+.3f}, {self.high:+.3f}], p = {self.p_value:.3f}, "
            f"{self.wins} better, {self.losses} worse, {self.ties} equal"
        )


def mean_interval(values: list[float], seed: int = 0) -> Interval:
    """The mean of values with its 95% bootstrap interval (percentile method, scipy)."""
    data = np.asarray(values, dtype=float)
    mean = float(data.mean())
    low, high = (mean, mean) if data.size < 2 or np.ptp(data) == 0 else _bootstrap(data, seed)
    return Interval(mean=mean, low=low, high=high, n=int(data.size))


def _bootstrap(data: npt.NDArray[np.float64], seed: int) -> tuple[float, float]:
    from scipy.stats import bootstrap

    result = bootstrap(
        (data,),
        np.mean,
        n_resamples=_RESAMPLES,
        batch=max(1, 1_000_000 // data.size),
        confidence_level=_CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    interval = cast("Any", result).confidence_interval
    return float(interval.low), float(interval.high)


def paired_comparison(metric: str, before: Sequence[float], after: Sequence[float], seed: int = 0) -> Comparison:
    """Compare two lists of scores of the same questions in the same order.

    The interval is a 95% bootstrap interval of the mean difference. The p-value is that of a two-sided permutation test
    that swaps the two scores of a question; it is exact for few questions and from 10,000 draws otherwise.
    """
    from scipy.stats import permutation_test

    x, y = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    gain = y - x
    interval = mean_interval(gain.tolist(), seed)
    p_value = 1.0
    if np.any(gain):
        test = permutation_test(
            (y, x),
            lambda a, b, axis: np.mean(a - b, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=_RESAMPLES,
            batch=max(1, 1_000_000 // gain.size),
            rng=np.random.default_rng(seed),
        )
        p_value = float(cast("Any", test).pvalue)
    return Comparison(
        metric=metric,
        difference=interval.mean,
        low=interval.low,
        high=interval.high,
        p_value=p_value,
        wins=int((gain > 0).sum()),
        losses=int((gain < 0).sum()),
        ties=int((gain == 0).sum()),
        n=int(gain.size),
    )


def pareto_front(items: Iterable[T], cost: Callable[[T], float], score: Callable[[T], float]) -> list[T]:
    """The items that no other beats in both cost and score, cheapest first; of equal ones, the first."""
    front: list[T] = []
    for item in sorted(items, key=lambda item: (cost(item), -score(item))):
        if not front or score(item) > score(front[-1]) + 1e-12:
            front.append(item)
    return front
