"""Metrics in DSPy's form: `metric(example, prediction, trace=None) -> float` in [0, 1].

The example has `question`, `answer`, and `aliases`, `gold_ids` or other fields that a metric names. The prediction has
`answer`; without one it scores 0. DSPy passes a `trace` while it bootstraps; no metric uses it. A metric that is not
defined for an example raises `DataError`.

`get_metric` finds a metric by name. `recall`, `precision` and `mrr` score the passages that the answer rests on, and
take a cut-off in the name, as in `recall@5`; `found`, `shown`, `used` and `shown_precision` score the way to the
answer. `judged_accuracy` asks the language model in DSPy's settings.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from knowgap.compiling.evaluation.metrics.answers import OF_ANSWERS
from knowgap.compiling.evaluation.metrics.retrieval import EVIDENCE, OF_PASSAGES
from knowgap.errors import UsageError, ValueOutOfBounds, shorten
from knowgap.plugins import find

Metric = Callable[..., float]
Metrics = Mapping[str, Metric] | Sequence[str | Metric] | str | Metric
"""One metric or several, by their names or as functions."""

DEFAULT_METRICS = ("f1", "exact_match")
"""What answers are scored by, where nothing else is said."""

METRICS: dict[str, Metric] = {**OF_ANSWERS, **OF_PASSAGES, **EVIDENCE}
"""Metrics by name."""


def get_metric(name: str) -> Metric:
    """The metric of a name, such as `exact_match`, `f1` or `recall@5`.

    Args:
        name: a key of `METRICS`; or `module:Name` of a function from outside, or of a class that is called like one.

    Raises:
        UnknownName: there is no such metric.
        UsageError: a metric from outside that cannot be imported.
        ValueOutOfBounds: the cut-off is not a whole number of at least 1.
    """
    base, at, cutoff = name.partition("@")
    if base not in METRICS or (at and base not in OF_PASSAGES):
        known = [*METRICS, *(f"{metric}@k" for metric in OF_PASSAGES)]
        metric: Any = find("metric", name, known)
        return metric() if isinstance(metric, type) else metric
    if not at:
        return METRICS[base]
    if not cutoff.isdecimal() or int(cutoff) < 1:
        raise ValueOutOfBounds(f"metric {name!r}: the cut-off {cutoff!r} must be a whole number of at least 1")
    at_k = functools.partial(METRICS[base], k=int(cutoff))
    functools.update_wrapper(at_k, METRICS[base]).__name__ = name
    return at_k


def named_metrics(metrics: Metrics) -> dict[str, Metric]:
    """Metrics by name, each of which raises a `UsageError` for a score that is not a number from 0 to 1.

    Raises:
        UnknownName: a name is not in the registry.
        UsageError: there is no metric, or two have the same name.
    """
    if isinstance(metrics, Mapping):
        by_name = dict(metrics)
    else:
        several = [metrics] if isinstance(metrics, str) or callable(metrics) else list(metrics)
        names = [m if isinstance(m, str) else getattr(m, "__name__", type(m).__name__) for m in several]
        if len({*names}) != len(names):
            raise UsageError("two metrics have the same name: pass a mapping from names to metrics")
        by_name = {n: get_metric(m) if isinstance(m, str) else m for n, m in zip(names, several, strict=True)}
    if not by_name:
        raise UsageError("no metric: name at least one")
    return {name: _checked(name, metric) for name, metric in by_name.items()}


def _checked(name: str, metric: Metric) -> Metric:
    """The metric, with its scores checked; it need not take a trace, and may return a prediction with a `score`."""
    kinds = [each.kind for each in inspect.signature(metric).parameters.values()]
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    takes_trace = inspect.Parameter.VAR_POSITIONAL in kinds or sum(kind in by_place for kind in kinds) > 2

    def score(example: Any, prediction: Any, trace: Any = None) -> float:
        result: Any = metric(example, prediction, trace) if takes_trace else metric(example, prediction)
        try:
            value = math.nan if isinstance(result, str) else float(result)
        except (TypeError, ValueError):
            value = math.nan
        if not 0 <= value <= 1:
            said = f"{shorten(repr(result), 60)} for the question {shorten(example.get('question'), 80)!r}"
            raise UsageError(f"metric {name} gave {said}: a score must be a number from 0 to 1")
        return value

    functools.update_wrapper(score, metric).__name__ = name
    return score
