"""What a question can cost, by name: counts and seconds, of which less is better. `Cost` explains them in full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from knowgap.programs.trace.trace import Cost


class CostItem(NamedTuple):
    """One cost of a question.

    Attributes:
        summary: what is counted.
        of: reads it from the cost of a question.
    """

    summary: str
    of: Callable[[Cost], float]


COSTS: dict[str, CostItem] = {
    "lm_calls": CostItem("Calls of the language model, cached ones included.", lambda c: c.lm_calls),
    "cached_calls": CostItem("Calls of the language model that a cache answered.", lambda c: c.cached_calls),
    "unreadable": CostItem("Calls of requests to which no reply could be read.", lambda c: c.unreadable),
    "cut": CostItem("Calls whose reply ended at the limit of tokens.", lambda c: c.cut),
    "tokens": CostItem("Tokens of prompts and completions.", lambda c: c.prompt_tokens + c.completion_tokens),
    "prompt_tokens": CostItem("Tokens of prompts.", lambda c: c.prompt_tokens),
    "completion_tokens": CostItem("Tokens of completions.", lambda c: c.completion_tokens),
    "retrievals": CostItem("Queries sent to the retriever.", lambda c: c.retrievals),
    "passages": CostItem("Distinct passages that the language model read.", lambda c: c.passages),
    "knowledge_tokens": CostItem(
        "Words of retrieved text that the language model read, each time it read them (MIGRES, table 5).",
        lambda c: c.knowledge_tokens,
    ),
    "iterations": CostItem("Iterations of the method.", lambda c: c.iterations),
    "passages_per_iteration": CostItem(
        "Passages read per iteration (MIGRES, table 4); a method that does not iterate has one.",
        lambda c: c.passages / max(1, c.iterations),
    ),
    "seconds": CostItem("Wall time of the question.", lambda c: c.seconds),
    "critical_calls": CostItem("Calls in the longest chain that wait for one another.", lambda c: c.critical_calls),
}
"""Costs by name."""

METERED = frozenset(
    {"lm_calls", "cached_calls", "unreadable", "cut", "tokens", "prompt_tokens", "completion_tokens", "critical_calls"}
)
"""The costs that are not known where calls went around the meter (`Cost.uncounted_calls`)."""


def mean_costs(costs: Sequence[Cost]) -> dict[str, float | None]:
    """The mean of every cost over questions, of which there must be one; None if it is not known, see `METERED`."""
    means = {name: sum(item.of(cost) for cost in costs) / len(costs) for name, item in COSTS.items()}
    uncounted = any(cost.uncounted_calls for cost in costs)
    return {name: None if uncounted and name in METERED else mean for name, mean in means.items()}
