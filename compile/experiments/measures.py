"""What a column of a table shows: scores, costs, and the best of the answers that a program weighed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from knowgap.compile.evaluation.metrics import METRICS, Metric, UpperBound, get_metric
from knowgap.compile.evaluation.results import COSTS, Evaluation
from knowgap.compile.evaluation.runner import QuestionRecord
from knowgap.compile.evaluation.statistics import Interval, mean_interval
from knowgap.compile.experiments.probes import measured
from knowgap.errors import UnknownName

__all__ = ["TABLE_COSTS", "is_cost", "measure", "score_metrics"]

TABLE_COSTS: dict[str, Callable[[QuestionRecord], float]] = {
    **COSTS,
    "passages_per_iteration": lambda r: r.cost.passages / max(1, r.cost.iterations),
}
"""Costs by name: those of `compile.evaluation.results`, and passages read per iteration (MIGRES, table 4)."""


def is_cost(name: str) -> bool:
    """Whether a column's metric is a cost, of which less is better."""
    return name in TABLE_COSTS


def score_metrics(names: Sequence[str], *, best_of_answers: bool = False) -> dict[str, Metric]:
    """The metrics among `names` that score answers, by name; exact match where all are costs.

    Args:
        names: metrics, `probe:NAME` for what a probe measures, and costs.
        best_of_answers: score the best of the prediction's `answers` (the upper bound of RQ-RAG, section 4.3).

    Raises:
        UnknownName: for a name that is neither.
    """
    chosen = [name for name in names if not is_cost(name)] or ["exact_match"]
    found: dict[str, Metric] = {}
    for name in chosen:
        probe, colon, what = name.partition(":")
        try:
            metric = measured(what) if colon and probe == "probe" else get_metric(name)
        except UnknownName:
            raise UnknownName.among("metric or cost", name, [*METRICS, *TABLE_COSTS]) from None
        found[name] = UpperBound(metric, name) if best_of_answers else metric
    return found


def measure(evaluation: Evaluation, name: str) -> Interval | None:
    """A column's figure with its interval; None where it is defined for no question.

    A failed question scores 0; its costs, of which the trace was lost, are left out.
    """
    if not is_cost(name):
        return evaluation.interval(name) if any(r.scores.get(name) is not None for r in evaluation.records) else None
    values = [TABLE_COSTS[name](record) for record in evaluation.records if not record.error]
    return mean_interval(values, evaluation.provenance.seed) if values else None
