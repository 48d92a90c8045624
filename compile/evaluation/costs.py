"""What a question can cost, by name: counts and seconds, of which less is better. `Cost` explains them in full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

from knowgap.programs.trace.trace import Cost


class CostItem(NamedTuple):
    """One cost of a question: what is counted, and a function that reads it from the cost of a question."""

    summary: str
    of: Callable[[Cost], float]


COSTS: dict[str, CostItem] = {
    **{
        name: CostItem(f"{str(field.description).capitalize()}.", attrgetter(name))
        for name, field in Cost.model_fields.items()
        if name != "uncounted_calls"
    },
    "tokens": CostItem("Tokens of prompts and completions.", lambda c: c.prompt_tokens + c.completion_tokens),
    "passages_per_iteration": CostItem(
        "Passages read per iteration (MIGRES, table 4); a method that does not iterate has one.",
        lambda c: c.passages / max(1, c.iterations),
    ),
}
"""Costs by name."""

METERED = frozenset(COSTS) - {
    *("retrievals", "passages", "knowledge_tokens", "iterations", "passages_per_iteration", "seconds"),
}
"""The costs that are not known where calls went around the meter (`Cost.uncounted_calls`)."""


def mean_costs(costs: Sequence[Cost]) -> dict[str, float | None]:
    """The mean of every cost over questions, of which there must be one; None if it is not known, see `METERED`."""
    means = {name: sum(item.of(cost) for cost in costs) / len(costs) for name, item in COSTS.items()}
    uncounted = any(cost.uncounted_calls for cost in costs)
    return {name: None if uncounted and name in METERED else mean for name, mean in means.items()}
