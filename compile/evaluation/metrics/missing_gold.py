"""Find gold passages that an index does not hold; questions that name one are not scored by their passages."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import dspy

from knowgap.compiling.evaluation.metrics import scores_passages
from knowgap.compiling.evaluation.metrics.retrieval import gold_ids
from knowgap.errors import DataError


def check_gold(examples: Sequence[dspy.Example], retriever: Any, metric: str) -> None:
    """Refuse a metric that scores passages if questions name no gold passages, or some that the index lacks.

    Raises:
        DataError: the message names a question without gold passages, or says how many are missing, and names some.
    """
    if not scores_passages(metric):
        return
    for example in examples:
        gold_ids(example)
    if lacking := _lacking(examples, retriever):
        said = f"{_said(lacking, examples)}, which {metric} cannot score"
        raise DataError(f"{said}: index their passages, or name another metric")


def without_missing_gold(
    examples: Sequence[dspy.Example], retriever: Any, metric: str
) -> tuple[list[dspy.Example], int]:
    """Remove the gold ids of the questions that name a passage which the index does not hold.

    No program could find that passage: scored by its passages, the question would count as a failure of the program.
    A retriever without `missing_ids`, such as an index behind a URL, is assumed to hold all passages.

    Returns:
        The questions, and how many of them have lost their gold ids.

    Raises:
        DataError: `metric`, the main one, cannot score the questions; see `check_gold`.

    Warns:
        UserWarning: there are such questions.
    """
    check_gold(examples, retriever, metric)
    lacking = _lacking(examples, retriever)
    if lacking:
        warnings.warn(f"{_said(lacking, examples)}, so retrieval is not scored on these questions", stacklevel=3)
    kept = [e.copy(gold_ids=[]) if number in lacking else e for number, e in enumerate(examples)]
    return kept, len(lacking)


def _lacking(examples: Sequence[dspy.Example], retriever: Any) -> dict[int, list[str]]:
    """The questions that the index lacks gold passages of, by number: the gold ids that name nothing in the index."""
    named = [[str(name) for name in example.get("gold_ids") or ()] for example in examples]
    find = getattr(retriever, "missing_ids", None)
    every = list(dict.fromkeys(name for names in named for name in names))
    missing = set(find(every)) if every and find is not None else set[str]()
    lacking = {number: [name for name in names if name in missing] for number, names in enumerate(named)}
    return {number: names for number, names in lacking.items() if names}


def _said(lacking: dict[int, list[str]], examples: Sequence[dspy.Example]) -> str:
    missing = sorted({name for names in lacking.values() for name in names})
    some = ", ".join(map(repr, missing[:3])) + (", …" if len(missing) > 3 else "")
    return f"not in the index: {len(missing)} gold ids, of {len(lacking)} of {len(examples)} questions ({some})"
