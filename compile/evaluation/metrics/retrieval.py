"""Metrics that compare passages with the gold passages.

`recall`, `precision` and `mrr` compare an example's `gold_ids` with a prediction's passages in their order, each id
counted once. A gold id may be that of a document which was split: each of its passages then counts as that gold
passage. `found`, `shown`, `used` and `shown_precision` take from the trace which passages were found, shown to the
model and used. No metric is defined for a question without gold passages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from knowgap.errors import DataError
from knowgap.programs.trace.evidence import found_passages, shown_passages, used_passages
from knowgap.retrieval.passage import gold_name


def passage_ids(prediction: Any) -> list[str]:
    """Ids in order, each once, of a prediction's `passages`, or of a list of passages, hits or ids."""
    items = prediction if isinstance(prediction, (list, tuple)) else getattr(prediction, "passages", None)
    ids = (item if isinstance(item, (str, int)) else getattr(item, "passage", item).id for item in items or ())
    return list(dict.fromkeys(map(str, ids)))


def gold_ids(example: Any) -> frozenset[str]:
    """The example's gold ids; `DataError` if it has none."""
    gold: Iterable[str] | None = getattr(example, "gold_ids", None)
    if not gold:
        question = getattr(example, "question", "")
        problem = f"question {question!r} names no gold passages, so retrieval cannot be scored"
        raise DataError(problem, field="gold_ids")
    return frozenset(map(str, gold))


def found_gold(ids: Iterable[str], gold: Collection[str]) -> set[str]:
    """The gold ids that name one of the passages."""
    return {name for name in (gold_name(each, gold) for each in ids) if name is not None}


def _recall(ids: Iterable[str], example: Any) -> float:
    gold = gold_ids(example)
    return len(found_gold(ids, gold)) / len(gold)


def _precision(ids: Collection[str], example: Any) -> float:
    gold = gold_ids(example)
    return sum(gold_name(each, gold) is not None for each in ids) / len(ids) if ids else 0.0


def recall(example: Any, prediction: Any, trace: Any = None, *, k: int | None = None) -> float:
    """Fraction of the gold passages that are among the first `k` passages (None: all)."""
    return _recall(passage_ids(prediction)[:k], example)


def precision(example: Any, prediction: Any, trace: Any = None, *, k: int | None = None) -> float:
    """Fraction of the first `k` passages (None: all) that are gold; 0 if nothing was retrieved.

    The denominator is the number of passages there are, which may be fewer than `k`.
    """
    return _precision(passage_ids(prediction)[:k], example)


def mrr(example: Any, prediction: Any, trace: Any = None, *, k: int | None = None) -> float:
    """Reciprocal rank of the first gold passage among the first `k` (None: all); 0 if there is none."""
    gold = gold_ids(example)
    ranked = enumerate(passage_ids(prediction)[:k], start=1)
    return next((1 / rank for rank, each in ranked if gold_name(each, gold) is not None), 0.0)


def found(example: Any, prediction: Any, trace: Any = None) -> float:
    """Fraction of the gold passages that some search of the question returned."""
    return _recall(found_passages(prediction.trace), example)


def shown(example: Any, prediction: Any, trace: Any = None) -> float:
    """Fraction of the gold passages that were shown to the model, whole or in part."""
    return _recall(shown_passages(prediction.trace), example)


def used(example: Any, prediction: Any, trace: Any = None) -> float:
    """Fraction of the gold passages that the answer rests on, directly or through what was taken from them."""
    return _recall(used_passages(prediction.trace), example)


def shown_precision(example: Any, prediction: Any, trace: Any = None) -> float:
    """Fraction of the retrieved passages shown to the model that are gold, each counted once; 0 if none were shown."""
    return _precision(shown_passages(prediction.trace), example)
