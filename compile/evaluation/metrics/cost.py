"""What an answer cost, in the shape of a metric: `(example, prediction, trace=None) -> float`.

These are counts and seconds, not scores: not bounded by 1, and less is better. They stand in `COST_METRICS`, apart from
`METRICS`, so that nothing maximises them by mistake. All read the ledger in `prediction.trace.cost`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from knowgap.errors import UsageError

__all__ = [
    "COST_METRICS",
    "iterations",
    "knowledge_tokens",
    "lm_calls",
    "passages",
    "passages_per_iteration",
    "retrievals",
    "seconds",
    "tokens",
]


def _cost(prediction: Any) -> Any:
    cost = getattr(getattr(prediction, "trace", None), "cost", None)
    if cost is None:
        raise UsageError("the prediction has no trace with a cost; only a knowgap program's prediction has one")
    return cost


def lm_calls(example: Any, prediction: Any, trace: Any = None) -> float:
    """Calls of the language model, those answered from a cache included."""
    return float(_cost(prediction).lm_calls)


def tokens(example: Any, prediction: Any, trace: Any = None) -> float:
    """Tokens of prompts and completions together."""
    cost = _cost(prediction)
    return float(cost.prompt_tokens + cost.completion_tokens)


def retrievals(example: Any, prediction: Any, trace: Any = None) -> float:
    """Queries sent to the retriever."""
    return float(_cost(prediction).retrievals)


def passages(example: Any, prediction: Any, trace: Any = None) -> float:
    """Distinct passages that the language model read."""
    return float(_cost(prediction).passages)


def knowledge_tokens(example: Any, prediction: Any, trace: Any = None) -> float:
    """Words of retrieved text that the language model read, each time it read them (MIGRES, table 5)."""
    return float(_cost(prediction).knowledge_tokens)


def iterations(example: Any, prediction: Any, trace: Any = None) -> float:
    """Iterations of the method."""
    return float(_cost(prediction).iterations)


def passages_per_iteration(example: Any, prediction: Any, trace: Any = None) -> float:
    """Passages read for each iteration (MIGRES, table 4); a method that does not iterate has one."""
    cost = _cost(prediction)
    return cost.passages / max(1, cost.iterations)


def seconds(example: Any, prediction: Any, trace: Any = None) -> float:
    """Wall time of the question."""
    return float(_cost(prediction).seconds)


COST_METRICS: dict[str, Callable[..., float]] = {
    metric.__name__: metric
    for metric in (
        *(lm_calls, tokens, retrievals, passages, knowledge_tokens),
        *(iterations, passages_per_iteration, seconds),
    )
}
"""Cost metrics by name."""
