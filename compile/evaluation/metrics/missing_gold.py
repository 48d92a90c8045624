"""Find gold passages that an index does not hold; questions that name one are not scored by their passages."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import dspy

from knowgap.compiling.evaluation.metrics import METRICS, Metric, scores_passages
from knowgap.compiling.evaluation.metrics.retrieval import gold_ids
from knowgap.errors import DataError


def check_gold(examples: Sequence[dspy.Example], retriever: Any, metric: str) -> None:
    """Refuse a metric that scores passages if the index lacks gold passages of the questions.

    Raises:
        DataError: gold passages are missing; the message says how many, and names some.
    """
    if scores_passages(metric) and (missing := _missing_gold(examples, retriever)):
        said = _said(missing, examples)
        raise DataError(f"{said}, which {metric} cannot score: index their passages, or name another metric")


def check_names_gold(examples: Iterable[dspy.Example], name: str, metric: Metric) -> None:
    """Refuse a metric of knowgap's that scores passages if a question names no gold passages.

    Raises:
        DataError: there is such a question; the message names it.
    """
    if inspect.unwrap(metric) is METRICS.get(name.partition("@")[0]) and scores_passages(name):
        for example in examples:
            gold_ids(example)


def without_missing_gold(
    examples: Sequence[dspy.Example], retriever: Any, metric: str
) -> tuple[list[dspy.Example], int]:
    """Remove the gold ids of the questions that name a passage which the index does not hold.

    No program could find that passage: scored by its passages, the question would count as a failure of the program.
    A retriever without `missing_ids`, such as an index behind a URL, is assumed to hold all passages.

    Returns:
        The questions, and how many of them have lost their gold ids.

    Raises:
        DataError: there are such questions, and `metric`, the main one, scores passages.

    Warns:
        UserWarning: there are such questions.
    """
    check_gold(examples, retriever, metric)
    missing = _missing_gold(examples, retriever)
    if missing:
        warnings.warn(f"{_said(missing, examples)}, so retrieval is not scored on these questions", stacklevel=3)
    kept = [e.copy(gold_ids=[]) if _names(e, missing) else e for e in examples]
    return kept, sum(_names(example, missing) for example in examples)


def _missing_gold(examples: Sequence[dspy.Example], retriever: Any) -> set[str]:
    """The gold ids that name neither a passage of the index nor a document that was split into passages."""
    ids = dict.fromkeys(str(name) for example in examples for name in example.get("gold_ids") or ())
    find = getattr(retriever, "missing_ids", None)
    return set(find(list(ids))) if ids and find is not None else set()


def _names(example: dspy.Example, missing: set[str]) -> bool:
    return not missing.isdisjoint(map(str, example.get("gold_ids") or ()))


def _said(missing: set[str], examples: Sequence[dspy.Example]) -> str:
    number = sum(_names(example, missing) for example in examples)
    some = ", ".join([*map(repr, sorted(missing)[:3]), *(["…"] if len(missing) > 3 else [])])
    return f"not in the index: {len(missing)} gold ids, of {number} of {len(examples)} questions ({some})"
