"""What a study found: Optuna's trials, the one that is chosen, and its program."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

import optuna
from optuna.trial import FrozenTrial, TrialState

from knowgap.compiling.evaluation.quiet import quiet
from knowgap.compiling.study.objective import COSTS, DEFAULT, LABEL, Objective, spent_in
from knowgap.errors import StudyError
from knowgap.lms.metering import Usage
from knowgap.programs.base import Program

P = TypeVar("P", bound=Program)

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)

_ENOUGH = 20  # complete trials from which on it can be told what decides the score


@dataclass(frozen=True)
class StudyResult(Generic[P]):
    """A study that has ended.

    Attributes:
        study: Optuna's study, for `optuna.visualization` and `optuna.importance`. The `user_attrs` of its trials have
            the mean `costs` of a question, what the trial has `spent`, and the `label` of those that were not drawn.
        objective: what it maximised; it knows the program as it was and its demonstration sets.
        best: the trial that is chosen.
        stopped: why the study ended: "trials", or the limit that was reached.
    """

    study: optuna.Study
    objective: Objective[P]
    best: FrozenTrial
    stopped: str

    def __repr__(self) -> str:
        score = f"{self.objective.metric} {self.best.values[0]:.3f} on dev"
        chosen = f"trial {self.best.number} of {len(self.trials)} is chosen with {score}"
        return f"StudyResult({self.objective.program.name}: {chosen}; ended by: {self.stopped})"

    @cached_property
    def program(self) -> P:
        """A copy of the program with the hyperparameters and demonstrations of the chosen trial."""
        return self.objective.program_of(self.best)

    @cached_property
    def trials(self) -> list[FrozenTrial]:
        """All finished trials, complete or stopped early, by number."""
        return self.study.get_trials(states=FINISHED)

    @property
    def complete(self) -> list[FrozenTrial]:
        """The trials that were asked all dev questions."""
        return [trial for trial in self.trials if trial.state == TrialState.COMPLETE]

    @property
    def spent(self) -> Usage:
        """What all trials, the failed ones included, and the demonstrations cost."""
        return spent_in(self.study.get_trials(deepcopy=False)) + self.objective.demos.spent

    def changes(self, trial: FrozenTrial | None = None) -> dict[str, tuple[Any, Any]]:
        """Hyperparameters and numbers of demonstrations, before and after, that a trial (the chosen one) changes."""
        return changes(self.objective.program, self.objective.program_of(trial or self.best))

    def importances(self) -> dict[str, float]:
        """How much each parameter decides the score (Optuna's PED-ANOVA), in shares, the most important first.

        Empty if fewer than 20 trials are complete, or if no parameter sets the best of them apart.
        """
        if len(self.complete) < _ENOUGH or len({trial.values[0] for trial in self.complete}) < 2:
            return {}
        with quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shares = optuna.importance.get_param_importances(self.study)
        return shares if len({*shares.values()}) > 1 else {}


def changes(program: Program, other: Program) -> dict[str, tuple[Any, Any]]:
    """The hyperparameters, and the numbers of demonstrations by predictor, in which two programs differ."""
    before, after = (
        {**each.values(), **{f"demonstrations of {n}": len(cast("Any", p).demos) for n, p in each.named_predictors()}}
        for each in (program, other)
    )
    return {name: (before[name], after[name]) for name in before if before[name] != after[name]}


def rank(trial: FrozenTrial) -> tuple[float, float, float, bool, int]:
    """The key by which complete trials are sorted, best first.

    The higher mean score comes first; among equals, the one with fewer calls a question, then with fewer tokens, then
    the default settings, then the earlier one. A cost that is not known is infinite.
    """
    costs = trial.user_attrs[COSTS]
    calls, tokens = (math.inf if costs[name] is None else costs[name] for name in ("lm_calls", "tokens"))
    return -round(trial.values[0], 12), calls, tokens, trial.user_attrs.get(LABEL) != DEFAULT, trial.number


def choose(trials: Sequence[FrozenTrial], tolerance: float = 0.0) -> FrozenTrial:
    """The complete trial with the fewest calls a question of those whose mean score is within `tolerance` of the best.

    Raises:
        StudyError: no trial is complete.
    """
    complete = sorted((trial for trial in trials if trial.state == TrialState.COMPLETE), key=rank)
    if not complete:
        raise StudyError("no trial was completed: raise the limits or the number of trials, and continue")
    best = complete[0].values[0]
    near = [trial for trial in complete if trial.values[0] >= best - tolerance - 1e-12]
    return min(near, key=lambda trial: rank(trial)[1:])
