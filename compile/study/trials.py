"""The trials of a study as results, and the rules that choose one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.trial import TrialState
from pydantic import BaseModel, ConfigDict

from knowgap.compile.evaluation.results import COSTS
from knowgap.compile.study.budget import Spent
from knowgap.errors import StudyError, UsageError

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

__all__ = ["CONFIG", "PAPER", "RESULT", "TrialResult", "check_rule", "choose", "finished", "front"]

CONFIG = "config"
"""The trial attribute that holds what was tried: values, demonstration sets, label, key."""

RESULT = "result"
"""The trial attribute that holds what came of it: scores, costs, spending."""

PAPER = "paper"
"""The label of the trial with the paper's settings and no demonstrations."""


class TrialResult(BaseModel):
    """One trial.

    Attributes:
        number: Optuna's.
        label: "paper", "current", "calibrated", "bootstrapped", "given" or "sampled".
        values: every hyperparameter.
        demonstrations: the chosen set by predictor.
        complete: whether every dev question was asked; a pruned trial stopped before.
        scores: in the study's order of the questions; fewer than all where pruned.
        costs: mean per question, by the names of `knowgap.compile.evaluation.results.COSTS`.
        failed: questions on which the program failed.
        spent: what the trial cost.
        same_as: number of the earlier trial whose result was taken over, having tried the same.
    """

    model_config = ConfigDict(extra="forbid")

    number: int
    label: str
    values: dict[str, Any]
    demonstrations: dict[str, int] = {}
    complete: bool
    scores: list[float]
    costs: dict[str, float]
    failed: int = 0
    spent: Spent = Spent()
    same_as: int | None = None

    @property
    def score(self) -> float:
        """The mean over the questions that were asked."""
        return float(np.mean(self.scores)) if self.scores else 0.0

    @classmethod
    def of(cls, trial: FrozenTrial) -> TrialResult:
        """Read a finished trial."""
        config, result = trial.user_attrs[CONFIG], trial.user_attrs[RESULT]
        return cls(
            number=trial.number,
            label=config["label"],
            values=config["values"],
            demonstrations=config["demonstrations"],
            complete=trial.state == TrialState.COMPLETE,
            # What was not counted yet when the trial was run counts as 0.
            **{**result, "costs": {**dict.fromkeys(COSTS, 0.0), **result["costs"]}},
        )


def finished(study: Study) -> list[TrialResult]:
    """The complete and the pruned trials of a study, in their order."""
    states = (TrialState.COMPLETE, TrialState.PRUNED)
    return [TrialResult.of(trial) for trial in study.get_trials(deepcopy=False, states=states)]


def choose(trials: Sequence[TrialResult], rule: str = "best", cost: str = "lm_calls") -> TrialResult:
    """Choose a trial; a pruned one is never chosen.

    Args:
        trials: finished trials.
        rule: "best", the highest mean score, where the paper's settings give way only to a higher one, and the
            cheaper and then the earlier of equals is taken; "within 0.02", the cheapest among those that are at most
            so much below the best; "under 12", the best of those that cost at most so much per question.
        cost: what counts as cost, by the names of `knowgap.compile.evaluation.results.COSTS`.

    Raises:
        StudyError: no trial is complete, or none is under the limit.
        UsageError: another rule.
    """
    complete = [trial for trial in trials if trial.complete]
    if not complete:
        raise StudyError("no trial was completed: raise the budget or the number of trials, and continue")
    kind, amount = check_rule(rule)

    def rank(trial: TrialResult) -> tuple[float, bool, float, int]:
        return -round(trial.score, 12), trial.label != PAPER, trial.costs[cost], trial.number

    best = min(complete, key=rank)
    if kind == "within":
        near = [trial for trial in complete if trial.score >= best.score - amount - 1e-12]
        return min(near, key=lambda trial: (trial.costs[cost], rank(trial)))
    if kind == "under":
        affordable = [trial for trial in complete if trial.costs[cost] <= amount + 1e-12]
        if not affordable:
            least = min(trial.costs[cost] for trial in complete)
            raise StudyError(f"no trial costs {amount:g} {cost} or less: the cheapest costs {least:g}")
        return min(affordable, key=rank)
    return best


def front(trials: Sequence[TrialResult], cost: str = "lm_calls") -> list[TrialResult]:
    """The complete trials that no other beats in both score and cost, cheapest first."""
    ranked = sorted((t for t in trials if t.complete), key=lambda t: (t.costs[cost], -t.score, t.number))
    kept: list[TrialResult] = []
    for trial in ranked:
        if not kept or trial.score > kept[-1].score + 1e-12:
            kept.append(trial)
    return kept


def check_rule(rule: str) -> tuple[str, float]:
    """A rule in its parts: "best", "within" or "under", and its amount; `UsageError` for another."""
    kind, _, amount = rule.strip().partition(" ")
    if kind == "best" and not amount:
        return kind, 0.0
    try:
        number = float(amount)
    except ValueError:
        number = -1.0
    if kind not in ("within", "under") or not number >= 0:
        raise UsageError(f"rule {rule!r}: it is best, within X (X below the best score) or under X (cost per question)")
    return kind, number
