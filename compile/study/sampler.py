"""The sampler of a study: TPE, seeded anew for every trial by the trial's place among those that count."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

__all__ = ["PlaceSeededSampler", "place"]


def place(study: Study, number: int) -> int:
    """How many trials before this one count: complete, pruned or running. Failed ones leave no trace."""
    counting = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)
    return sum(trial.number < number for trial in study.get_trials(deepcopy=False, states=counting))


class PlaceSeededSampler(BaseSampler):
    """TPE whose draws depend on the seed, the trial's place and the results before it, and on nothing else.

    A study that was killed and continued therefore draws what it would have drawn, and workers that begin at the same
    time draw different things.

    Args:
        seed: of the study.
        startup: so many trials are drawn at random before results count.
    """

    def __init__(self, seed: int, startup: int = 8):
        self._seed, self._startup = seed, startup
        self._tpe = TPESampler(seed=seed, n_startup_trials=startup)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Seed for this trial."""
        text = f"{self._seed} {place(study, trial.number)}".encode()
        seed = int.from_bytes(hashlib.sha256(text).digest()[:4], "big")
        self._tpe = TPESampler(seed=seed, n_startup_trials=self._startup)
        self._tpe.before_trial(study, trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """As TPE does."""
        return self._tpe.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """As TPE does."""
        return self._tpe.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """As TPE does."""
        return self._tpe.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """As TPE does."""
        self._tpe.after_trial(study, trial, state, values)
