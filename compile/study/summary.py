"""What a stored study tells by itself, without the program or the data it was made with."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optuna.trial import TrialState
from pydantic import ValidationError

from knowgap.compile.demonstrations.demo_sets import DemoSets
from knowgap.compile.evaluation.costs import COSTS
from knowgap.compile.evaluation.quiet import quiet
from knowgap.compile.evaluation.statistics import Comparison, paired_comparison
from knowgap.compile.study.shared_study import read_set_up
from knowgap.compile.study.trials import PAPER, Calls, TrialResult, choose, count_calls, finished
from knowgap.errors import StudyError, UnknownName
from knowgap.programs.trace.usage import Usage

if TYPE_CHECKING:
    from optuna import Study

__all__ = ["StudyFacts", "importances", "matching", "read_study"]


@dataclass(frozen=True)
class StudyFacts:
    """A study as it stands in its storage.

    Attributes:
        name: the study's.
        program: name of the program.
        metric: what was optimized.
        lm: name of the language model.
        pareto: whether the cost was an objective besides the score.
        cost: what counts as cost.
        seed: of every draw.
        dev_digest: digest of the dev questions.
        size: number of dev questions; 0 while no trial is complete.
        trials: all finished trials.
        parameters: Optuna's parameters by number of the trial.
        unfinished: trials that failed, or have not ended yet.
        chosen: the chosen trial; None while none is complete.
        setup: what bootstrapping demonstrations cost.
        pool: the demonstrations to choose from.
        importances: see `importances`.
    """

    name: str
    program: str
    metric: str
    lm: str
    pareto: bool
    cost: str
    seed: int
    dev_digest: str
    size: int
    trials: list[TrialResult]
    parameters: dict[int, dict[str, Any]]
    unfinished: int
    chosen: TrialResult | None
    setup: Usage
    pool: DemoSets
    importances: dict[str, float]

    def labelled(self, label: str) -> TrialResult | None:
        """The first complete trial with a label such as "paper" or "current"."""
        return next((trial for trial in self.trials if trial.label == label and trial.complete), None)

    @property
    def paper(self) -> TrialResult | None:
        """The trial with the paper's settings and no demonstrations, if it is finished."""
        return self.labelled(PAPER)

    def gain(self, before: TrialResult) -> Comparison:
        """The chosen trial against another complete one on the dev questions, on which it was chosen: it flatters."""
        if self.chosen is None:
            raise StudyError("no trial is complete: there is nothing to compare")
        return paired_comparison(self.metric, before.scores, self.chosen.scores)

    @property
    def spent(self) -> Usage:
        """What the whole study cost, as far as trials ended."""
        return sum((trial.spent for trial in self.trials), self.setup)

    @property
    def calls(self) -> Calls:
        """Calls to the language model, with and without what saves calls."""
        return count_calls(self.trials, self.setup, self.size)


def read_study(study: Study, *, cost: str = "", chosen: TrialResult | None = None) -> StudyFacts:
    """Read a study that `tune` made.

    Args:
        study: Optuna's study.
        cost: what counts as cost; what the study took for it where absent.
        chosen: the trial that was chosen; the best one by dev score where absent.

    Raises:
        StudyError: the study was made by something else, or is not set up yet.
        UnknownName: a cost of another name.
    """
    attributes = study.user_attrs
    try:
        about = attributes["fingerprint"]
        set_up = read_set_up(study)
        program, metric, lm = about["program"][0], about["metric"], about["language model"][0]
        mode, named_cost = about["mode"], about["cost"]
        trials = finished(study)
    except (KeyError, ValidationError, ValueError, TypeError, IndexError) as error:
        reason = "it is not set up yet, or was made by something else than knowgap"
        raise StudyError(f"study {study.study_name!r} cannot be reported: {reason}") from error
    counted = cost or named_cost or "lm_calls"
    if counted not in COSTS:
        raise UnknownName.among("cost", counted, COSTS)
    complete = [trial for trial in trials if trial.complete]
    every = study.get_trials(deepcopy=False)
    numbers = {trial.number for trial in trials}
    running = sum(t.state in (TrialState.RUNNING, TrialState.FAIL) for t in every)
    return StudyFacts(
        name=study.study_name,
        program=str(program),
        metric=str(metric),
        lm=str(lm),
        pareto=mode == "pareto",
        cost=counted,
        seed=int(about.get("seed") or 0),
        dev_digest=str(about.get("dev questions") or ""),
        size=len(complete[0].scores) if complete else 0,
        trials=trials,
        parameters={trial.number: dict(trial.params) for trial in every if trial.number in numbers},
        unfinished=running,
        chosen=chosen or (choose(trials, "best", counted) if complete else None),
        setup=set_up.spent,
        pool=set_up.pool,
        importances=importances(study),
    )


def importances(study: Study) -> dict[str, float]:
    """How much each parameter decides the score (Optuna's PED-ANOVA), most important first; empty if unknown."""
    from optuna.importance import get_param_importances

    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len({trial.values[0] for trial in complete}) < 2:
        return {}  # Optuna would call all parameters equally important
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # each trial with few companions is worth a warning to Optuna
        try:
            return get_param_importances(study, target=lambda trial: -trial.values[0])
        except (ValueError, RuntimeError):
            return {}  # no parameter that all of them set


def matching(
    trials: Sequence[TrialResult], values: dict[str, Any], shown: dict[str, int], pool: DemoSets
) -> TrialResult | None:
    """The best complete trial with these hyperparameters and so many demonstrations by predictor, if there is one."""
    found = [
        trial
        for trial in trials
        if trial.complete
        and trial.values == values
        and {p: len(pool.sets[p][n]) for p, n in trial.demonstrations.items() if pool.sets[p][n]}
        == {p: n for p, n in shown.items() if p in trial.demonstrations}
    ]
    return max(found, key=lambda trial: (trial.score, -trial.number), default=None)
