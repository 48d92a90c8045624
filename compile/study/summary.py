"""Read the facts about a study from its storage, without the program or the data."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from optuna.trial import TrialState

from knowgap.compiling.demonstrations.demo_sets import DemoSets
from knowgap.compiling.evaluation.costs import COSTS
from knowgap.compiling.evaluation.quiet import quiet
from knowgap.compiling.evaluation.statistics import Comparison, paired_comparison, pareto_front
from knowgap.compiling.study.shared import ABOUT, read_demos
from knowgap.compiling.study.space import PROGRAM, program_prefix
from knowgap.compiling.study.trials import DEFAULT, TrialResult, choose, finished, rank
from knowgap.errors import StudyError, UnknownName
from knowgap.lms.metering import Usage

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

_LEFT_OUT = 50  # if there are more trials, about this many of them are left out in turn


class Calls(NamedTuple):
    """Counted calls to the language model over a study: those that reached it, and what was saved.

    `without_sharing` are the calls if no answer and no earlier trial's result had been used again, `without_pruning`
    the same if every trial had also asked every dev question (extrapolated).
    """

    spent: int
    without_sharing: int
    without_pruning: int


class ProgramTrials(NamedTuple):
    """A program of a study: its finished trials, the best complete one, what trials and demonstrations cost."""

    name: str
    n_trials: int
    best: TrialResult | None
    spent: Usage

    def row(self, metric: str) -> dict[str, str | int]:
        """The program's row of a table, by column heading."""
        best = self.best
        return {
            "program": self.name,
            "trials": self.n_trials,
            f"best dev {metric}": "" if best is None else f"{best.score:.3f}",
            "LM calls": "" if best is None else f"{best.cost('lm_calls'):.1f}",
            "LM calls spent": self.spent.calls,
        }


@dataclass(frozen=True)
class StudyFacts:
    """The facts about a study.

    Attributes:
        study: Optuna's study.
        programs: the names of the programs, in the order in which they were given.
        pareto: whether the cost was an objective beside the score.
        dev_digest: digest of the dev questions.
        trials: all finished trials, by number.
        unfinished: number of trials that failed or have not ended.
        chosen: the chosen trial; None while none is complete.
        demos: the demonstration sets that trials choose from, and what they cost, by program.
    """

    study: Study
    programs: list[str]
    metric: str
    lm: str
    pareto: bool
    cost: str
    seed: int
    dev_digest: str
    trials: list[TrialResult]
    unfinished: int
    chosen: TrialResult | None
    demos: dict[str, DemoSets]

    @property
    def name(self) -> str:
        """The study's name."""
        return self.study.study_name

    @property
    def best(self) -> TrialResult:
        """The chosen trial; `StudyError` while none is complete."""
        if self.chosen is None:
            raise StudyError("no trial is complete: continue the study")
        return self.chosen

    @property
    def complete(self) -> list[TrialResult]:
        """The trials that were asked all dev questions."""
        return [trial for trial in self.trials if trial.complete]

    @property
    def size(self) -> int:
        """Number of dev questions; 0 while no trial is complete."""
        return next((len(trial.scores) for trial in self.complete), 0)

    @property
    def setup(self) -> Usage:
        """What bootstrapping the demonstrations cost."""
        return sum((demos.spent for demos in self.demos.values()), Usage())

    def pool_of(self, program: str) -> DemoSets:
        """The demonstration sets that a program's trials choose from."""
        return self.demos.get(program, DemoSets())

    def n_demos(self, trial: TrialResult) -> dict[str, int]:
        """How many demonstrations a trial showed, for the predictors that have sets to choose from."""
        pool = self.pool_of(trial.program)
        return {p: len(sets[trial.demonstrations.get(p, pool.own[p])]) for p, sets in pool.sets.items()}

    def labelled(self, label: str) -> TrialResult | None:
        """The first complete trial with a label such as "default" or "current"."""
        return next((trial for trial in self.complete if trial.label == label), None)

    @property
    def default(self) -> TrialResult:
        """The trial with the defaults and no demonstrations, of the first program; or `StudyError`."""
        default = self.labelled(DEFAULT)
        if default is None:
            raise StudyError("the trial with the defaults is not finished: continue the study")
        return default

    def describe(self, trial: TrialResult) -> str:
        """The label of a trial, with its program if there are several."""
        return trial.label if len(self.programs) == 1 else f"{trial.program}, {trial.label}"

    def by_program(self) -> list[ProgramTrials]:
        """The trials of every program, in the order (`rank`) of the programs' best complete trials."""
        summaries = []
        for name in self.programs:
            own = [trial for trial in self.trials if trial.program == name]
            best = min((trial for trial in own if trial.complete), key=partial(rank, cost=self.cost), default=None)
            spent = sum((trial.spent for trial in own), self.pool_of(name).spent)
            summaries.append(ProgramTrials(name, len(own), best, spent))
        return sorted(summaries, key=lambda each: (each.best is None, rank(each.best, self.cost) if each.best else ()))

    def compared(self) -> list[dict[str, str | int]]:
        """Each program's row of a table, by column heading; empty if there was one program."""
        return [each.row(self.metric) for each in self.by_program()] if len(self.programs) > 1 else []

    @property
    def front(self) -> list[TrialResult]:
        """The complete trials that no other beats in both score and cost, cheapest first."""
        known = [trial for trial in self.complete if trial.costs[self.cost] is not None]
        return pareto_front(known, cost=lambda t: t.cost(self.cost), score=lambda t: t.score)

    @property
    def spent(self) -> Usage:
        """What all finished trials and the set-up cost."""
        return sum((trial.spent for trial in self.trials), self.setup)

    @property
    def calls(self) -> Calls:
        """Calls to the language model, with and without sharing and pruning."""
        by_number = {trial.number: trial for trial in self.trials}
        ran = [by_number[trial.number if trial.same_as is None else trial.same_as] for trial in self.trials]
        return Calls(
            spent=self.spent.calls,
            without_sharing=self.setup.asked + sum(trial.spent.asked for trial in ran),
            without_pruning=self.setup.asked + round(sum(t.costs["lm_calls"] or 0.0 for t in ran) * self.size),
        )

    def gain(self, before: TrialResult | None = None) -> Comparison:
        """Compare the chosen trial with another (default: that with the defaults) on dev, where it looks too good."""
        return paired_comparison(self.metric, (before or self.default).scores, self.best.scores)

    def importances(self) -> dict[str, tuple[float, float, float]]:
        """How much each parameter of the chosen program decides the score (Optuna's PED-ANOVA), most important first.

        The second and third number are its minimum and maximum if one complete trial is left out; of more than 50
        trials, about 50 are left out in turn. Trials that ran before the demonstrations were made do not count.

        Returns:
            Three numbers from 0 to 1 by name; empty if fewer than three trials are complete, or none differ.
        """
        prefix = program_prefix(self.best.program, len(self.programs))
        demos = {f"{prefix}demos.{predictor}" for predictor in self.pool_of(self.best.program).sets}
        own = {trial.number for trial in self.complete if trial.program == self.best.program}
        stored = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        trials = [trial for trial in stored if trial.number in own and demos <= {*trial.params}]
        if len(trials) < 3:
            return {}
        step = max(1, len(trials) // _LEFT_OUT)
        others = [_importances([*trials[:n], *trials[n + 1 :]]) for n in range(0, len(trials), step)]
        found: dict[str, tuple[float, float, float]] = {}
        for name, share in _importances(trials).items():
            without = [other.get(name, 0.0) for other in others]
            found[name] = share, min(without), max(without)
        return found


def _importances(trials: Sequence[FrozenTrial]) -> dict[str, float]:
    from optuna import create_study
    from optuna.importance import get_param_importances

    if len({trial.values[0] for trial in trials}) < 2:
        return {}  # Optuna would call all parameters equally important
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few trials are worth a warning to Optuna
        study = create_study(directions=["maximize" for _ in trials[0].values])
        study.add_trials(trials)
        try:
            importances = get_param_importances(study, target=lambda trial: -trial.values[0])
            return {name: share for name, share in importances.items() if name != PROGRAM}
        except (ValueError, RuntimeError):
            return {}  # no parameter that all trials set


def read_study(study: Study, *, cost: str = "") -> StudyFacts:
    """Read a study that `knowgap.compile` made; `cost` is by default the study's second objective, or calls.

    Raises:
        StudyError: the study was made by something else.
        UnknownName: a cost of another name.
    """
    about = study.user_attrs.get(ABOUT)
    if about is None:
        raise StudyError(f"study {study.study_name!r} cannot be reported: it was not made by knowgap")
    cost = cost or about["cost"] or "lm_calls"
    if cost not in COSTS:
        raise UnknownName.among("cost", cost, COSTS)
    stored, trials = study.get_trials(deepcopy=False), finished(study)
    return StudyFacts(
        study=study,
        programs=about["programs"],
        metric=about["metric"],
        lm=about["language model"][0],
        pareto=about["mode"] == "pareto",
        cost=cost,
        seed=about["seed"],
        dev_digest=about["dev questions"],
        trials=trials,
        unfinished=sum(trial.state in (TrialState.RUNNING, TrialState.FAIL) for trial in stored),
        chosen=choose(trials, "best", cost) if any(trial.complete for trial in trials) else None,
        demos=read_demos(study),
    )


def matching(facts: StudyFacts, program: str, values: dict[str, Any], n_demos: dict[str, int]) -> TrialResult | None:
    """The best complete trial with these hyperparameters and numbers of demonstrations by predictor, if any.

    If the study has a program of that name, only its trials are considered.
    """
    matches = []
    for trial in facts.complete:
        demos, is_other = facts.n_demos(trial), program in facts.programs and trial.program != program
        if not is_other and trial.values == values and all(n == n_demos.get(p, 0) for p, n in demos.items()):
            matches.append(trial)
    return min(matches, key=rank, default=None)
