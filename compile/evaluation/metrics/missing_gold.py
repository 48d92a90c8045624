"""Gold passages that an index does not hold: questions that name one are not scored by their passages."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import dspy

from knowgap.compiling.evaluation.metrics import scores_passages
from knowgap.compiling.evaluation.metrics.retrieval import gold_ids
from knowgap.errors import DataError


def without_missing_gold(examples: Sequence[dspy.Example], retriever: Any, metric: str) -> list[dspy.Example]:
    """Remove the gold ids of the questions that name a passage which the index does not hold.

    No program could find that passage: scored by its passages, the question would count as a failure of the program.
    A retriever without `missing_ids`, such as an index behind a URL, is assumed to hold all passages.

    Raises:
        DataError: `metric`, the main one, scores passages, and a question names none, or one that the index lacks.

    Warns:
        UserWarning: there are such questions; the message says how many, and names some passages.
    """
    if scores_passages(metric):
        for example in examples:
            gold_ids(example)
    named = [[*map(str, example.get("gold_ids") or ())] for example in examples]
    find, every = getattr(retriever, "missing_ids", None), list(dict.fromkeys(id for ids in named for id in ids))
    missing = set(find(every)) if every and find is not None else set[str]()
    lacking = [not missing.isdisjoint(ids) for ids in named]
    if not missing:
        return list(examples)
    some = ", ".join(map(repr, sorted(missing)[:3])) + (", …" if len(missing) > 3 else "")
    said = f"not in the index: {len(missing)} gold ids, of {sum(lacking)} of {len(examples)} questions ({some})"
    if scores_passages(metric):
        raise DataError(f"{said}, which {metric} cannot score: index their passages, or name another metric")
    warnings.warn(f"{said}, so retrieval is not scored on these questions", stacklevel=3)
    return [example.copy(gold_ids=[]) if lacks else example for example, lacks in zip(examples, lacking, strict=True)]
