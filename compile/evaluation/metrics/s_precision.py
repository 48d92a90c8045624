"""S-Precision: whether the retrieved passages are exactly the needed ones."""

from __future__ import annotations

from typing import Any

from knowgap.compile.evaluation.metrics.retrieval import gold_ids, passage_ids

__all__ = ["s_precision"]


def s_precision(example: Any, prediction: Any, trace: Any = None) -> float:
    """1.0 if the prediction's passages are the gold passages, all of them and no other, else 0.0.

    Source: BlendFilter (Wang et al., 2024), section 4: the proportion of questions whose retrieved documents precisely
    match the golden relevant ones. Undefined (`DataError`) for a question without gold passages.
    """
    return float(set(passage_ids(prediction)) == gold_ids(example))
