"""Metrics, one file each, in DSPy's shape: `metric(example, prediction, trace=None) -> float` in [0, 1].

`get_metric` finds one by name; `recall`, `precision` and `mrr` take a cut-off in the name, as in `recall@5`. Some
ask a language model (`judged_accuracy`, `quest_…`) or an entailment model (`citation_…`): by name they come with the
model in DSPy's settings and the embedded one; construct them for another. A metric that is not defined for an example
raises `DataError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from knowgap.compile.evaluation.metrics.accuracy import accuracy
from knowgap.compile.evaluation.metrics.asqa import str_em, str_hit
from knowgap.compile.evaluation.metrics.citation import CitationPrecision, CitationRecall
from knowgap.compile.evaluation.metrics.exact_match import exact_match
from knowgap.compile.evaluation.metrics.f1 import f1
from knowgap.compile.evaluation.metrics.judge import JudgedAccuracy
from knowgap.compile.evaluation.metrics.normalize import normalize_answer
from knowgap.compile.evaluation.metrics.popqa_match import popqa_match
from knowgap.compile.evaluation.metrics.rag_quest_eval import RAGQuestEval
from knowgap.compile.evaluation.metrics.retrieval import mrr, precision, recall
from knowgap.compile.evaluation.metrics.s_precision import s_precision
from knowgap.compile.evaluation.metrics.upper_bound import UpperBound
from knowgap.errors import UnknownName, ValueOutOfBounds

__all__ = [
    "METRICS",
    "CitationPrecision",
    "CitationRecall",
    "JudgedAccuracy",
    "Metric",
    "RAGQuestEval",
    "UpperBound",
    "accuracy",
    "exact_match",
    "f1",
    "get_metric",
    "mrr",
    "normalize_answer",
    "popqa_match",
    "precision",
    "recall",
    "s_precision",
    "str_em",
    "str_hit",
]

Metric = Callable[..., float]

METRICS: dict[str, Metric] = {
    "exact_match": exact_match,
    "f1": f1,
    "accuracy": accuracy,
    "recall": recall,
    "precision": precision,
    "mrr": mrr,
    "s_precision": s_precision,
    "popqa_match": popqa_match,
    "str_em": str_em,
    "str_hit": str_hit,
    "judged_accuracy": JudgedAccuracy(),
    "quest_recall": RAGQuestEval("question_recall"),
    "quest_token_precision": RAGQuestEval("token_precision"),
    "quest_token_recall": RAGQuestEval("token_recall"),
    "quest_token_f1": RAGQuestEval("token_f1"),
    "citation_recall": CitationRecall(),
    "citation_precision": CitationPrecision(),
    "upper_bound": UpperBound(exact_match, "exact match"),
    "upper_bound_f1": UpperBound(f1, "F1"),
}
"""Metrics by name."""
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
