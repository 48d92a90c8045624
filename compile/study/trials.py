"""The trials of a study as results, and the rules that choose one of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.trial import TrialState
from pydantic import BaseModel

from knowgap.compiling.study.config import StudyConfig, parse_rule
from knowgap.errors import StudyError
from knowgap.lms.metering import Usage

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)

# The attributes of a trial: what it tries, what came out, what it has spent so far, and its place in the list of
# initial trials, if it is one.
CONFIG, RESULT, SPENT, INITIAL = "config", "result", "spent", "initial"

DEFAULT = "default"
"""The label of the trial with the defaults and no demonstrations."""

BOOTSTRAPPED = "bootstrapped"
"""The label of the trial with the first of the bootstrapped demonstration sets."""

AFTER_FIRST_ROUND = ("calibrated", BOOTSTRAPPED)
"""The labels of initial trials that only programs in the race have."""


class TrialResult(BaseModel, extra="forbid"):
    """One trial.

    Attributes:
        number: Optuna's number of the trial.
        label: "default", "current", "given", "calibrated", "bootstrapped" or "sampled".
        values: every hyperparameter.
        demonstrations: number of the demonstration set by predictor, where it is not the one the program came with.
        program: the program's name.
        complete: whether every dev question was asked; False for a trial that was pruned.
        scores: the score of each question, in the study's order; fewer than all if the trial was pruned.
        costs: mean per question, by the names of `knowgap.compiling.evaluation.costs.COSTS`; None if not known.
        failed: number of questions on which the program failed.
        spent: what the trial cost.
        same_as: number of the earlier trial that tried the same, whose result this one has; None if it was run.
    """

    number: int
    label: str
    values: dict[str, Any]
    demonstrations: dict[str, int] = {}
    program: str = ""
    complete: bool
    scores: list[float]
    costs: dict[str, float | None]
    failed: int = 0
    spent: Usage = Usage()
    same_as: int | None = None

    @property
    def score(self) -> float:
        """The mean over the questions that were asked."""
        return float(np.mean(self.scores)) if self.scores else 0.0

    def cost(self, name: str) -> float:
        """The mean cost of a question; infinite if it is not known, since calls went around the meter."""
        mean = self.costs.get(name, 0.0)
        return math.inf if mean is None else mean

    @classmethod
    def of(cls, trial: FrozenTrial) -> TrialResult:
        """Read a finished trial."""
        stored, complete = trial.user_attrs, trial.state == TrialState.COMPLETE
        return cls(number=trial.number, complete=complete, spent=stored[SPENT], **stored[CONFIG], **stored[RESULT])


def finished(study: Study) -> list[TrialResult]:
    """The complete and the pruned trials of a study, by number."""
    return [TrialResult.of(trial) for trial in study.get_trials(deepcopy=False, states=FINISHED)]


def rank(trial: TrialResult, cost: str = "lm_calls") -> tuple[float, float, float, bool, int]:
    """The key by which trials are sorted, best first.

    The higher mean score comes first; among equals, the cheaper one by `cost`, then by tokens, then the default
    settings, then the earlier one.
    """
    return -round(trial.score, 12), trial.cost(cost), trial.cost("tokens"), trial.label != DEFAULT, trial.number


def choose(
    trials: Sequence[TrialResult], rule: str = "best", cost: str = "lm_calls", limits: StudyConfig | None = None
) -> TrialResult:
    """Choose a complete trial.

    Args:
        trials: finished trials.
        rule: "best" takes the highest mean score, by `rank`. "within 0.02" takes the cheapest trial whose score is at
            most 0.02 below the best. "under 12" takes the best trial that costs at most 12 per question.
        cost: what counts as cost, by the names of `knowgap.compiling.evaluation.costs.COSTS`.
        limits: trials that exceed its price limit per question are left out first.

    Raises:
        StudyError: no trial is complete, or none is within the limit.
        UsageError: the rule is none of these.
    """
    permitted = [trial for trial in trials if limits is None or limits.permits(trial.costs)]
    if limits is not None and trials and not permitted:
        nearest = min(trials, key=lambda trial: limits.price(trial.costs))
        raise StudyError(
            f"no trial costs {limits.max_cost_per_question:g} US dollars a question or less: the cheapest, "
            f"trial {nearest.number} of {nearest.program}, costs {limits.price(nearest.costs):.3g} US dollars"
        )
    complete = [trial for trial in permitted if trial.complete]
    if not complete:
        raise StudyError("no trial was completed: raise the budget or the number of trials, and continue")
    kind, amount = parse_rule(rule)
    by_rank = partial(rank, cost=cost)
    best = min(complete, key=by_rank)
    if kind == "within":
        near = [trial for trial in complete if trial.score >= best.score - amount - 1e-12]
        return min(near, key=lambda trial: (trial.cost(cost), by_rank(trial)))
    if kind == "under":
        affordable = [trial for trial in complete if trial.cost(cost) <= amount + 1e-12]
        if not affordable:
            least = min(trial.cost(cost) for trial in complete)
            raise StudyError(f"no trial costs {amount:g} {cost} or less: the cheapest costs {least:g}")
        return min(affordable, key=by_rank)
    return best
