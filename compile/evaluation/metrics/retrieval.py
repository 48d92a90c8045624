"""Metrics that compare passages with the gold passages.

`recall`, `precision` and `mrr` compare an example's `gold_ids` with a prediction's passages in their order, each id
counted once. A gold id may be that of a document which was split: each of its passages then counts as that gold
passage. `found`, `shown`, `used` and `shown_precision` take from the trace which passages were found, shown to the
model and used. No metric is defined for a question without gold passages.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import dspy

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


OF_PASSAGES: dict[str, Any] = {each.__name__: each for each in (recall, precision, mrr)}
"""Metrics that take a cut-off in their names, by name."""
EVIDENCE: dict[str, Any] = {each.__name__: each for each in (found, shown, used, shown_precision)}
"""What every evaluation of questions with gold passages measures, asked for or not."""


def scores_passages(metric: str) -> bool:
    """Whether a metric, by its name, compares passages with the gold ones: it is defined where there are some."""
    return metric.partition("@")[0] in {*EVIDENCE, *OF_PASSAGES}


def without_missing_gold(examples: Sequence[dspy.Example], retriever: Any, metric: str) -> list[dspy.Example]:
    """Remove the gold ids of the questions that name a passage which the index does not hold, and warn of them.

    No program could find that passage: scored by its passages, the question would count as a failure of the program.
    A retriever without `missing_ids`, such as an index behind a URL, is assumed to hold all passages.

    Raises:
        DataError: `metric`, the main one, scores passages, and a question names none, or one that the index lacks.
    """
    for example in examples if scores_passages(metric) else ():
        gold_ids(example)
    named = [{*map(str, example.get("gold_ids") or ())} for example in examples]
    every, find = set[str]().union(*named), getattr(retriever, "missing_ids", None)
    missing = {*find(sorted(every))} if every and find is not None else set[str]()
    lacking = [not missing.isdisjoint(ids) for ids in named]
    said = f"{len(missing)} gold ids, of {sum(lacking)} of {len(examples)} questions, are not in the index"
    if missing and scores_passages(metric):
        raise DataError(f"{said}, such as {min(missing)!r}: index their passages, or name another metric than {metric}")
    if missing:
        warnings.warn(f"{said}, such as {min(missing)!r}: retrieval is not scored on these questions", stacklevel=3)
    return [example.copy(gold_ids=[]) if lacks else example for example, lacks in zip(examples, lacking, strict=True)]
