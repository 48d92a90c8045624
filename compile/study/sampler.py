"""Draw trials by Optuna's TPE, with a seed for every trial, among the programs that are in the race."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial, TrialState

from knowgap.compiling.study.space import PROGRAM

_STARTUP_TRIALS = 8  # drawn at random before results count
_STARTED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)


class TrialSeededSampler(TPESampler):
    """TPE with a new seed for every trial: what a trial draws follows from the seed, its place and earlier results.

    The place is the number of earlier trials that did not fail. A study that is continued therefore draws what it would
    have drawn without a break, and processes that start at the same time draw different things.

    Args:
        seed: the seed of all draws.
        candidates: in a study of several programs, the names of those that may be drawn. If TPE draws another one, the
            candidate with the fewest trials is taken instead.
    """

    def __init__(self, seed: int, candidates: Callable[[], Sequence[str]] | None = None):
        self._seed, self._candidates = seed, candidates
        self._start(seed)

    def _start(self, seed: int) -> None:
        grouped: dict[str, Any] = {"multivariate": True, "group": True} if self._candidates is not None else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            super().__init__(seed=seed, n_startup_trials=_STARTUP_TRIALS, **grouped)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Seed for this trial."""
        place = sum(o.number < trial.number for o in study.get_trials(deepcopy=False, states=_STARTED))
        digest = hashlib.sha256(f"{self._seed} {place}".encode()).digest()
        self._start(int.from_bytes(digest[:4], "big"))
        super().before_trial(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Draw the parameters that earlier trials have set."""
        drawn = super().sample_relative(study, trial, search_space)
        return {name: self._admit(study, value) if name == PROGRAM else value for name, value in drawn.items()}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw any other parameter."""
        drawn = super().sample_independent(study, trial, param_name, param_distribution)
        return self._admit(study, drawn) if param_name == PROGRAM else drawn

    def _admit(self, study: Study, program: str) -> str:
        candidates = self._candidates() if self._candidates is not None else []
        if not candidates or program in candidates:
            return program
        trials = study.get_trials(deepcopy=False, states=_STARTED)
        return min(candidates, key=lambda name: sum(trial.params.get(PROGRAM) == name for trial in trials))
