"""Metrics that compare passages with the gold passages.

`recall`, `precision`, `mrr` and `ndcg` compare an example's `gold_ids` with a prediction's passages in
their order, each id counted once. A gold id may be that of a document which was split: each of its passages then counts
as that gold passage. `found`, `shown`, `used` and `shown_precision` take from the trace which passages were found,
shown to the model and used. No metric is defined for a question without gold passages.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Any

from knowgap.errors import DataError
from knowgap.programs.trace.evidence import found_passages, shown_passages, used_passages
from knowgap.retrieval.passage import gold_name


def passage_ids(prediction: Any) -> list[str]:
    """Ids in order, each once, of a prediction's `passages`, or of a list of passages, hits or ids."""
    items = prediction if isinstance(prediction, (list, tuple)) else getattr(prediction, "passages", None)
    return list(dict.fromkeys(_id(item) for item in items or ()))


def _id(item: Any) -> str:
    if isinstance(item, (str, int)):
        return str(item)
    return str(item["id"] if isinstance(item, dict) else getattr(item, "passage", item).id)


def gold_ids(example: Any) -> frozenset[str]:
    """The example's gold ids; `DataError` if it has none."""
    gold: Iterable[str] | None = getattr(example, "gold_ids", None)
    if not gold:
        raise DataError(
            f"question {getattr(example, 'question', '')!r} names no gold passages, so retrieval cannot be scored",
            field="gold_ids",
        )
    return frozenset(map(str, gold))


def found_gold(ids: Iterable[str], gold: Collection[str]) -> set[str]:
    """The gold ids that name one of the passages."""
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
    ranked = enumerate(passage_ids(prediction)[:k], start=1)
    return next((1 / rank for rank, each in ranked if gold_name(each, gold) is not None), 0.0)


def ndcg(example: Any, prediction: Any, trace: Any = None, *, k: int | None = None) -> float:
    """Normalised discounted cumulative gain of the first `k` passages (None: all), with relevance 0 or 1.

    Source: Järvelin and Kekäläinen (2002), with the discount log2(rank + 1). A gold id counts at its first passage.
    """
    gold, seen = gold_ids(example), set[str]()
    gain = 0.0
    for rank, passage_id in enumerate(passage_ids(prediction)[:k], start=1):
        name = gold_name(passage_id, gold)
        if name is not None and name not in seen:
            seen.add(name)
            gain += 1 / math.log2(rank + 1)
    best = min(len(gold), k or len(gold))
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, best + 1))


def found(example: Any, prediction: Any, trace: Any = None) -> float:
    """Fraction of the gold passages that some search of the question returned."""
    gold = gold_ids(example)
    return len(found_gold(found_passages(prediction.trace), gold)) / len(gold)


def shown(example: Any, prediction: Any, trace: Any = None) -> float:
    """Fraction of the gold passages that were shown to the model, whole or in part."""
    gold = gold_ids(example)
    return len(found_gold(shown_passages(prediction.trace), gold)) / len(gold)


def used(example: Any, prediction: Any, trace: Any = None) -> float:
    """Fraction of the gold passages that the answer rests on, directly or through what was taken from them."""
    gold = gold_ids(example)
    return len(found_gold(used_passages(prediction.trace), gold)) / len(gold)


def shown_precision(example: Any, prediction: Any, trace: Any = None) -> float:
    """Fraction of the retrieved passages shown to the model that are gold, each counted once; 0 if none were shown."""
    gold, passages = gold_ids(example), shown_passages(prediction.trace)
    return sum(gold_name(each, gold) is not None for each in passages) / len(passages) if passages else 0.0
