"""The trials of a study as results, and the rules that choose one of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.trial import TrialState
from pydantic import BaseModel

from knowgap.compiling.study.search.price_limit import PriceLimit
from knowgap.errors import StudyError, UsageError
from knowgap.lms.metering import Usage

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

ABOUT = "about"
"""The study attribute that says what the study is about."""

CONFIG = "config"
"""The trial attribute that holds what is tried: label, program, hyperparameters, demonstration sets."""

RESULT = "result"
"""The trial attribute that holds the result: scores, costs, failures, spending."""

INITIAL = "initial"
"""The trial attribute that holds the position of an initial trial in the list of them."""

LEFT_OUT = "left out"
"""The attribute of an initial trial that was not run, since its program had left the race."""

SPENT = "spent"
"""The trial attribute that holds what the trial has spent so far."""

PAPER = "paper"
"""The label of the trial with the paper's settings and no demonstrations."""

BOOTSTRAPPED = "bootstrapped"
"""The label of the trial with the first of the bootstrapped demonstration sets."""


AFTER_FIRST_ROUND = ("calibrated", BOOTSTRAPPED)
"""The labels of initial trials that only programs in the race have."""


class TrialResult(BaseModel, extra="forbid"):
    """One trial.

    Attributes:
        number: Optuna's number of the trial.
        label: "paper", "current", "given", "calibrated", "bootstrapped" or "sampled".
        values: every hyperparameter.
        demonstrations: number of the chosen set by predictor.
        program: the program's name.
        complete: whether every dev question was asked; False for a trial that was pruned.
        scores: by question, in the study's order; fewer than all if pruned.
        costs: mean per question, by the names of `knowgap.compiling.evaluation.costs.COSTS`.
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
    costs: dict[str, float]
    failed: int = 0
    spent: Usage = Usage()
    same_as: int | None = None

    @property
    def score(self) -> float:
        """The mean over the questions that were asked."""
        return float(np.mean(self.scores)) if self.scores else 0.0

    @classmethod
    def of(cls, trial: FrozenTrial) -> TrialResult:
        """Read a finished trial."""
        complete = trial.state == TrialState.COMPLETE
        return cls(number=trial.number, complete=complete, **trial.user_attrs[CONFIG], **trial.user_attrs[RESULT])


def finished(study: Study) -> list[TrialResult]:
    """The complete and the pruned trials of a study, by number."""
    states = (TrialState.COMPLETE, TrialState.PRUNED)
    return [TrialResult.of(trial) for trial in study.get_trials(deepcopy=False, states=states)]


def rank(trial: TrialResult, cost: str = "lm_calls") -> tuple[float, float, float, bool, int]:
    """The place of a trial among others, best first: the one rule by which the best is told.

    The higher mean score comes first; among equals the cheaper one by `cost`, then by tokens, then the paper's
    settings, then the earlier one.
    """
    return (
        -round(trial.score, 12),
        trial.costs[cost],
        trial.costs.get("tokens", 0.0),
        trial.label != PAPER,
        trial.number,
    )


def choose(
    trials: Sequence[TrialResult], rule: str = "best", cost: str = "lm_calls", limit: PriceLimit | None = None
) -> TrialResult:
    """Choose a complete trial.

    Args:
        trials: finished trials.
        rule: "best" takes the highest mean score, by `rank`. "within 0.02" takes the cheapest trial whose score is at
            most 0.02 below the best. "under 12" takes the best trial that costs at most 12 per question.
        cost: what counts as cost, by the names of `knowgap.compiling.evaluation.costs.COSTS`.
        limit: trials beyond it are left out first.

    Raises:
        StudyError: no trial is complete, or none is within the limit.
        UsageError: another rule.
    """
    permitted = [trial for trial in trials if limit is None or limit.permits(trial.costs)]
    if limit is not None and trials and not permitted:
        raise StudyError(limit.refusal({f"trial {t.number} of {t.program}": t.costs for t in trials}))
    complete = [trial for trial in permitted if trial.complete]
    if not complete:
        raise StudyError("no trial was completed: raise the budget or the number of trials, and continue")
    kind, amount = parse_rule(rule)
    by_rank = partial(rank, cost=cost)
    best = min(complete, key=by_rank)
    if kind == "within":
        near = [trial for trial in complete if trial.score >= best.score - amount - 1e-12]
        return min(near, key=lambda trial: (trial.costs[cost], by_rank(trial)))
    if kind == "under":
        affordable = [trial for trial in complete if trial.costs[cost] <= amount + 1e-12]
        if not affordable:
            least = min(trial.costs[cost] for trial in complete)
            raise StudyError(f"no trial costs {amount:g} {cost} or less: the cheapest costs {least:g}")
        return min(affordable, key=by_rank)
    return best


def parse_rule(rule: str) -> tuple[str, float]:
    """Split a rule into "best", "within" or "under", and its number; `UsageError` for another rule."""
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
