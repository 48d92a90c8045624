"""The metrics of a table's columns: those by name, what probes measure, and what RQ-RAG does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from knowgap.compiling.evaluation.costs import COSTS
from knowgap.compiling.evaluation.metrics import METRICS, Metric, UpperBound, get_metric
from knowgap.compiling.experiments.probes import PROBES, probe_metric
from knowgap.errors import UnknownName
from knowgap.programs.rq_rag import RQRAG

_ACTIONS = ("direct", *(action for action in RQRAG.actions.choices if action != "all"))


def score_metrics(names: Sequence[str], *, best_of_answers: bool = False) -> dict[str, Metric]:
    """The metrics among `names` that score answers, by name; exact match if all are costs.

    Args:
        names: metrics, costs, `probe:NAME` for what a probe measures, and `action:NAME` for the share of an action on
            the path that RQ-RAG selects.
        best_of_answers: score the best of the prediction's `answers` (the upper bound of RQ-RAG, section 4.3).

    Raises:
        UnknownName: a name is none of these.
    """
    metrics: dict[str, Metric] = {}
    for name in [name for name in names if name not in COSTS] or ["exact_match"]:
        try:
            kind, _, of = name.partition(":")
            special = {"probe": probe_metric, "action": action_share}.get(kind) if of else None
            metric = special(of) if special is not None else get_metric(name)
        except UnknownName:
            known = [*METRICS, *COSTS, *(f"action:{action}" for action in _ACTIONS)]
            known += [f"probe:{measure}" for probe in PROBES.values() for measure in probe.measures]
            raise UnknownName.among("metric or cost", name, known) from None
        metrics[name] = UpperBound(metric, name) if best_of_answers else metric
    return metrics


def action_share(action: str) -> Metric:
    """The share of an action on the selected path (RQ-RAG, figures 5, 11 and 12); `direct` is the root's only one.

    Raises:
        UnknownName: RQ-RAG has no such action.
    """
    if action not in _ACTIONS:
        raise UnknownName.among("action", action, _ACTIONS)

    def share(example: Any, prediction: Any, trace: Any = None) -> float:
        actions = str(prediction.get("path") or "").split("/")
        return actions.count(action) / len(actions)

    return share
