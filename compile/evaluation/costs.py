"""The costs of a question by name: counts and seconds, where less is better. `Cost` explains them in full."""

from __future__ import annotations

from collections.abc import Sequence

from knowgap.programs.trace.trace import Cost

_KNOWN_BY = ("uncounted_calls", "unreported_calls", "unseen_searches")  # say which of the others are known
COSTS: dict[str, str] = {
    **{n: f"{str(f.description).capitalize()}." for n, f in Cost.model_fields.items() if n not in _KNOWN_BY},
    "tokens": "Tokens of prompts and completions.",
}
"""Costs by name, with a line on each."""

SEARCHED = frozenset({"retrievals", "passages", "knowledge_tokens"})
"""The costs that are not known if a module's searches cannot be seen (`Cost.unseen_searches`)."""

METERED = frozenset(COSTS) - SEARCHED - {"iterations", "seconds"}
"""The costs that are not known if calls went around the meter (`Cost.uncounted_calls`)."""

REPORTED = frozenset({"prompt_tokens", "completion_tokens", "tokens"})
"""The costs that are not known if replies do not state their tokens (`Cost.unreported_calls`)."""

PER_RIGHT_ANSWER = {"calls_per_right_answer": "lm_calls", "tokens_per_right_answer": "tokens"}
"""The costs per right answer: each is the mean of the cost named here, divided by the mean score."""


def cost_of(cost: Cost, name: str) -> float:
    """A cost of a question by its name."""
    return cost.prompt_tokens + cost.completion_tokens if name == "tokens" else getattr(cost, name)


def unknown_costs(costs: Sequence[Cost]) -> frozenset[str]:
    """The names of the costs that are not known for these questions: of `METERED`, `SEARCHED` and `REPORTED`."""
    unseen = bool(costs) and all(cost.unseen_searches for cost in costs)
    unmetered = any(cost.uncounted_calls for cost in costs)
    unreported = any(cost.unreported_calls for cost in costs)
    unknown = (METERED if unmetered else frozenset[str]()) | (SEARCHED if unseen else frozenset[str]())
    return unknown | (REPORTED if unreported else frozenset[str]())


def mean_costs(costs: Sequence[Cost], scores: Sequence[float | None]) -> dict[str, float | None]:
    """The mean of every cost over at least one question, and the costs per right answer (`PER_RIGHT_ANSWER`).

    A cost that is not known is None (see `unknown_costs`), as are the costs per right answer if no answer is right. The
    scores are by the metric that says which answers are right; None counts as 0.
    """
    means = {name: sum(cost_of(cost, name) for cost in costs) / len(costs) for name in COSTS}
    known = {name: None if name in unknown_costs(costs) else mean for name, mean in means.items()}
    right = sum(score or 0.0 for score in scores) / len(costs)
    prices = {name: known[cost] for name, cost in PER_RIGHT_ANSWER.items()}
    return known | {name: None if price is None or not right else price / right for name, price in prices.items()}
