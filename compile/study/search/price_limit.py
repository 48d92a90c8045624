"""What a question may cost on average in the chosen trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from knowgap.lms.metering import Prices, dollars


@dataclass(frozen=True)
class PriceLimit:
    """Limits of a question's mean cost on the dev questions; None sets none.

    Attributes:
        calls: calls of the language model, cached ones included.
        money: US dollars, as if no call were answered from a cache.
        prices: US dollars per million prompt and completion tokens; needed for a limit of money.
    """

    calls: float | None = None
    money: float | None = None
    prices: Prices | None = None

    def permits(self, costs: dict[str, float], share: float = 1.0) -> bool:
        """Whether costs per question are within the limits.

        Args:
            costs: means by the names of `knowgap.compiling.evaluation.costs.COSTS`.
            share: of all questions that these were measured on; the others are taken to cost nothing.
        """
        return all(
            limit is None or self._cost(costs, unit) * share <= limit + 1e-12 for unit, limit in self._limits().items()
        )

    def refusal(self, costs: Mapping[str, dict[str, float]]) -> str:
        """Say that no trial is within the limits, and which comes nearest.

        Args:
            costs: costs per question of at least one trial, by what the message calls the trial.
        """
        limits = {unit: limit for unit, limit in self._limits().items() if limit is not None}
        nearest = min(costs, key=lambda trial: [self._cost(costs[trial], unit) for unit in limits])
        wanted = " and ".join(f"{limit:g} {unit}" for unit, limit in limits.items())
        least = " and ".join(f"{self._cost(costs[nearest], unit):.3g} {unit}" for unit in limits)
        return f"no trial costs {wanted} a question or less: the cheapest, {nearest}, costs {least}"

    def _limits(self) -> dict[str, float | None]:
        return {"calls": self.calls, "US dollars": self.money}

    def _cost(self, costs: dict[str, float], unit: str) -> float:
        if unit == "calls" or self.prices is None:
            return costs["lm_calls"]
        return dollars(costs["prompt_tokens"], costs["completion_tokens"], self.prices)
