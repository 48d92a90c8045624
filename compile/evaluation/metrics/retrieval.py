"""Recall, precision, reciprocal rank and S-Precision of the gold passages.

All compare an example's `gold_ids` with the passages of a prediction in their order, each id counted once. A gold id
may be that of a document which was split: each of its passages then counts as that gold passage. They are not defined
for a question without gold passages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from knowgap.errors import DataError
from knowgap.retrieval.passage import gold_name

__all__ = ["found_gold", "gold_ids", "mrr", "passage_ids", "precision", "recall", "s_precision"]


def passage_ids(prediction: Any) -> list[str]:
    """Ids in order, each once, of a prediction's `passages`, or of a list of passages, hits or ids."""
    items = prediction if isinstance(prediction, (list, tuple)) else getattr(prediction, "passages", None)
    return list(dict.fromkeys(_id(item) for item in items or ()))


def _id(item: Any) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, dict):
        return str(item["id"])
    return str(getattr(item, "passage", item).id)


def gold_ids(example: Any) -> frozenset[str]:
    """The example's gold ids; `DataError` if it has none."""
    gold: Iterable[str] | None = getattr(example, "gold_ids", None)
    if not gold:
        raise DataError(
            f"question {getattr(example, 'question', '')!r} names no gold passages, so retrieval cannot be scored",
            field="gold_ids",
        )
    return frozenset(gold)


def found_gold(ids: Iterable[str], gold: Collection[str]) -> set[str]:
    """Those of the gold ids that name one of the passages."""
    return {name for name in (gold_name(each, gold) for each in ids) if name is not None}


def recall(example: Any, prediction: Any, trace: Any = None, *, k: int | None = None) -> float:
    """Fraction of the gold passages that are among the first `k` passages (None: all)."""
    gold = gold_ids(example)
    return len(found_gold(passage_ids(prediction)[:k], gold)) / len(gold)


def precision(example: Any, prediction: Any, trace: Any = None, *, k: int | None = None) -> float:
    """Fraction of the first `k` passages (None: all) that are gold; 0 if nothing was retrieved.

    The denominator is the number of passages there are, which may be fewer than `k`.
    """
    gold = gold_ids(example)
    ids = passage_ids(prediction)[:k]
    return sum(gold_name(each, gold) is not None for each in ids) / len(ids) if ids else 0.0


def mrr(example: Any, prediction: Any, trace: Any = None, *, k: int | None = None) -> float:
    """Reciprocal rank of the first gold passage among the first `k` (None: all); 0 if there is none."""
    gold = gold_ids(example)
    for rank, passage_id in enumerate(passage_ids(prediction)[:k], start=1):
        if gold_name(passage_id, gold) is not None:
            return 1 / rank
    return 0.0


def s_precision(example: Any, prediction: Any, trace: Any = None) -> float:
    """1.0 if the prediction's passages are the gold passages, all of them and no other, else 0.0.

    Source: BlendFilter (Wang et al., 2024), section 4: the proportion of questions whose retrieved documents precisely
    match the golden relevant ones.
    """
    gold = gold_ids(example)
    return float({gold_name(each, gold) for each in passage_ids(prediction)} == gold)
