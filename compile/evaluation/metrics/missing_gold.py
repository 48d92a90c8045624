"""Gold passages that an index does not hold: questions that name one are not scored by passages, which is said."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import dspy

from knowgap.compiling.evaluation.metrics import EVIDENCE
from knowgap.errors import DataError

_BY_PASSAGES = frozenset({"recall", "precision", "mrr", "s_precision", *EVIDENCE})
"""Metrics that compare passages with the gold ones, without their cut-offs."""


def check_gold(examples: Sequence[dspy.Example], retriever: Any, metric: str) -> None:
    """Refuse a metric that scores passages if the index lacks gold passages of the questions.

    Raises:
        DataError: it says how many, and names some.
    """
    if metric.partition("@")[0] not in _BY_PASSAGES:
        return
    missing = _missing_gold(examples, retriever)
    if missing:
        raise DataError(
            f"{_said(missing, examples)}, which {metric} cannot score: index their passages, or name another metric"
        )


def without_missing_gold(
    examples: Sequence[dspy.Example], retriever: Any, metric: str
) -> tuple[list[dspy.Example], int]:
    """Take the gold ids from the questions that name a passage which the index does not hold.

    No program could find that passage: scored by its passages, the question would count as a failure of the program.
    An index behind a URL, or a retriever without `missing_ids`, cannot tell, and is taken to hold all.

    Args:
        examples: the questions; they stay as they are.
        retriever: the index.
        metric: the main metric, which every question needs.

    Returns:
        The questions, and how many of them have lost their gold ids.

    Raises:
        DataError: there are such questions, and the main metric scores passages.

    Warns:
        UserWarning: there are such questions.
    """
    check_gold(examples, retriever, metric)
    missing = _missing_gold(examples, retriever)
    if not missing:
        return list(examples), 0
    warnings.warn(f"{_said(missing, examples)}, which are not scored by their passages", stacklevel=3)
    kept = [e.copy(gold_ids=[]) if _names(e, missing) else e for e in examples]
    return kept, sum(_names(example, missing) for example in examples)


def _missing_gold(examples: Sequence[dspy.Example], retriever: Any) -> dict[str, None]:
    """The gold ids, each once, of neither a passage of the index nor a document that was split into such."""
    ids = dict.fromkeys(name for example in examples for name in example.get("gold_ids") or ())
    find = getattr(retriever, "missing_ids", None)
    return dict.fromkeys(find(list(ids))) if ids and find is not None else {}


def _names(example: dspy.Example, missing: dict[str, None]) -> bool:
    return not missing.keys().isdisjoint(example.get("gold_ids") or ())


def _said(missing: dict[str, None], examples: Sequence[dspy.Example]) -> str:
    number = sum(_names(example, missing) for example in examples)
    some = ", ".join([*map(repr, list(missing)[:3]), *(["…"] if len(missing) > 3 else [])])
    return f"not in the index: {len(missing)} gold ids, of {number} of {len(examples)} questions ({some})"
