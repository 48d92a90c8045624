"""Metrics, one file each, in DSPy's shape: `metric(example, prediction, trace=None) -> float` in [0, 1].

`get_metric` finds one by name; `recall`, `precision` and `mrr` take a cut-off in the name, as in `recall@5`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from knowgap.compile.metrics.accuracy import accuracy
from knowgap.compile.metrics.exact_match import exact_match
from knowgap.compile.metrics.f1 import f1
from knowgap.compile.metrics.normalize import normalize_answer
from knowgap.compile.metrics.retrieval import mrr, precision, recall
from knowgap.errors import UnknownName, ValueOutOfBounds

__all__ = [
    "METRICS",
    "Metric",
    "accuracy",
    "exact_match",
    "f1",
    "get_metric",
    "mrr",
    "normalize_answer",
    "precision",
    "recall",
]

Metric = Callable[..., float]

METRICS: dict[str, Metric] = {
    "exact_match": exact_match,
    "f1": f1,
    "accuracy": accuracy,
    "recall": recall,
    "precision": precision,
    "mrr": mrr,
}
_WITH_CUTOFF = ("recall", "precision", "mrr")


def get_metric(name: str) -> Metric:
    """The metric of that name, such as `exact_match`, `f1` or `recall@5`.

    Raises:
        UnknownName: there is no such metric.
        ValueOutOfBounds: the cut-off is not a whole number of at least 1.
    """
    base, at, cutoff = name.partition("@")
    if base not in METRICS or (at and base not in _WITH_CUTOFF):
        raise UnknownName.among("metric", name, [*METRICS, *(f"{metric}@k" for metric in _WITH_CUTOFF)])
    if not at:
        return METRICS[base]
    if not cutoff.isdecimal() or int(cutoff) < 1:
        raise ValueOutOfBounds(f"metric {name!r}: the cut-off {cutoff!r} must be a whole number of at least 1")
    metric, k = METRICS[base], int(cutoff)

    def at_k(example: Any, prediction: Any, trace: Any = None) -> float:
        return metric(example, prediction, trace, k=k)

    at_k.__name__ = at_k.__qualname__ = name
    at_k.__doc__ = metric.__doc__
    return at_k
