"""Gold evidence that a method found and showed to the model, and how much of what it showed is gold; from the trace.

The measures of `retrieval.py` compare the gold passages with those that the answer rests on. These look at all that
happened on the way. They are not defined for a question without gold passages.
"""

from __future__ import annotations

from typing import Any

from knowgap.compiling.evaluation.metrics.retrieval import found_gold, gold_ids
from knowgap.programs.trace.evidence import found_passages, shown_passages
from knowgap.retrieval.passage import gold_name

__all__ = ["found", "shown", "shown_precision"]


def found(example: Any, prediction: Any, trace: Any = None) -> float:
    """Fraction of the gold passages that some search of the question returned."""
    gold = gold_ids(example)
    return len(found_gold(found_passages(prediction.trace), gold)) / len(gold)


def shown(example: Any, prediction: Any, trace: Any = None) -> float:
    """Fraction of the gold passages that stood before the model, whole or in part."""
    gold = gold_ids(example)
    return len(found_gold(shown_passages(prediction.trace), gold)) / len(gold)


def shown_precision(example: Any, prediction: Any, trace: Any = None) -> float:
    """Fraction of the retrieved passages before the model that are gold, each counted once; 0 if none stood there."""
    gold, passages = gold_ids(example), shown_passages(prediction.trace)
    return sum(gold_name(each, gold) is not None for each in passages) / len(passages) if passages else 0.0
