"""What the storage of a study says about it, without the program or the data."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from optuna.distributions import CategoricalDistribution
from optuna.trial import TrialState, create_trial
from pydantic import ValidationError

from knowgap.compiling.demonstrations.demo_sets import DemoSets
from knowgap.compiling.evaluation.costs import COSTS
from knowgap.compiling.evaluation.quiet import quiet
from knowgap.compiling.evaluation.statistics import Comparison, paired_comparison, pareto_front
from knowgap.compiling.study.search.space import PROGRAM, program_prefix
from knowgap.compiling.study.shared import MadeDemos, read_demos
from knowgap.compiling.study.trials import ABOUT, LEFT_OUT, PAPER, TrialResult, choose, finished, rank
from knowgap.errors import StudyError, UnknownName
from knowgap.lms.metering import Usage

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial


_LEFT_OUT = 50


@dataclass(frozen=True)
class Calls:
    """Calls to the language model over a study.

    Attributes:
        spent: calls that reached it.
        without_sharing: calls if no answer and no earlier trial's result had been used again.
        without_pruning: the same if every trial had also asked every dev question (extrapolated).
    """

    spent: int
    without_sharing: int
    without_pruning: int


@dataclass(frozen=True)
class ProgramTrials:
    """What a study says about one of its programs.

    Attributes:
        name: of the program.
        n_trials: number of its finished trials.
        best: the best of those that are complete; None if all were stopped early.
        spent: what its trials and demonstrations cost.
    """

    name: str
    n_trials: int
    best: TrialResult | None
    spent: Usage

    def row(self, metric: str) -> dict[str, str | int]:
        """What it says, by the headings of a table."""
        best = self.best
        return {
            "program": self.name,
            "trials": self.n_trials,
            f"best dev {metric}": "" if best is None else f"{best.score:.3f}",
            "LM calls": "" if best is None else f"{best.costs['lm_calls']:.1f}",
            "LM calls spent": self.spent.calls,
        }


@dataclass(frozen=True)
class StudyFacts:
    """A study.

    Attributes:
        study: Optuna's study.
        programs: the names of the programs, in the order in which they were given.
        metric: the name of the metric.
        lm: the name of the language model.
        pareto: whether the cost was an objective beside the score.
        cost: what counts as cost.
        seed: the seed of every random choice.
        dev_digest: digest of the dev questions.
        trials: all finished trials, by number.
        parameters: Optuna's parameters by number of the trial.
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
    parameters: dict[int, dict[str, Any]]
    unfinished: int
    chosen: TrialResult | None
    demos: dict[str, MadeDemos]

    @property
    def name(self) -> str:
        """The study's name."""
        return self.study.study_name

    @property
    def size(self) -> int:
        """Number of dev questions; 0 while no trial is complete."""
        return next((len(trial.scores) for trial in self.trials if trial.complete), 0)

    @property
    def setup(self) -> Usage:
        """What bootstrapping the demonstrations cost."""
        return sum((made.spent for made in self.demos.values()), Usage())

    def pool_of(self, program: str) -> DemoSets:
        """The demonstration sets that a program's trials choose from."""
        return self.demos[program].pool if program in self.demos else DemoSets()

    def labelled(self, label: str) -> TrialResult | None:
        """The first complete trial with a label such as "paper" or "current"."""
        return next((trial for trial in self.trials if trial.label == label and trial.complete), None)

    @property
    def paper(self) -> TrialResult | None:
        """The trial with the paper's settings and no demonstrations, of the first program, if it is finished."""
        return self.labelled(PAPER)

    def describe(self, trial: TrialResult) -> str:
        """The label of a trial, with its program if there are several."""
        return trial.label if len(self.programs) == 1 else f"{trial.program}, {trial.label}"

    def by_program(self) -> list[ProgramTrials]:
        """The trials of every program: those with the best complete trials first, by `rank`."""
        summaries = []
        for name in self.programs:
            own = [trial for trial in self.trials if trial.program == name]
            best = min((trial for trial in own if trial.complete), key=partial(rank, cost=self.cost), default=None)
            spent = sum((trial.spent for trial in own), self.demos[name].spent if name in self.demos else Usage())
            summaries.append(ProgramTrials(name, len(own), best, spent))
        return sorted(summaries, key=lambda each: (each.best is None, rank(each.best, self.cost) if each.best else ()))

    @property
    def front(self) -> list[TrialResult]:
        """The complete trials that no other beats in both score and cost, cheapest first."""
        complete = [trial for trial in self.trials if trial.complete]
        return pareto_front(complete, cost=lambda trial: trial.costs[self.cost], score=lambda trial: trial.score)

    @property
    def spent(self) -> Usage:
        """What all finished trials and the set-up cost."""
        return sum((trial.spent for trial in self.trials), self.setup)

    @property
    def calls(self) -> Calls:
        """Calls to the language model, with and without what saves calls."""
        by_number = {trial.number: trial for trial in self.trials}
        ran = [by_number[trial.number if trial.same_as is None else trial.same_as] for trial in self.trials]
        return Calls(
            spent=self.spent.calls,
            without_sharing=self.setup.asked + sum(trial.spent.asked for trial in ran),
            without_pruning=self.setup.asked + round(sum(trial.costs["lm_calls"] for trial in ran) * self.size),
        )

    def gain(self, before: TrialResult) -> Comparison:
        """The chosen trial against another complete one, on the dev questions, which flatters the chosen one."""
        if self.chosen is None:
            raise StudyError("no trial is complete: there is nothing to compare")
        return paired_comparison(self.metric, before.scores, self.chosen.scores)

    def importances(self) -> dict[str, float]:
        """How much each parameter of the chosen program decides the score (Optuna's PED-ANOVA), most important first.

        Empty if it is not known: fewer than three trials are complete, or none differ.
        """
        complete = self._complete()
        return _importances(complete) if len(complete) > 2 else {}

    def importance_ranges(self) -> dict[str, tuple[float, float]]:
        """Least and most of each importance if any one complete trial is left out, in the order of `importances`.

        A parameter without an importance in some of these counts as 0 there. Of more than 50 trials, 50 are left out in
        turn.
        """
        importances, complete = self.importances(), self._complete()
        step = max(1, len(complete) // _LEFT_OUT)
        others = [_importances([*complete[:n], *complete[n + 1 :]]) for n in range(0, len(complete), step)]
        without = {name: [other.get(name, 0.0) for other in others] for name in importances}
        return {name: (min(values), max(values)) for name, values in without.items()}

    def _complete(self) -> list[FrozenTrial]:
        own = {t.number for t in self.trials if self.chosen is None or t.program == self.chosen.program}
        trials = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return [self._with_demos(trial) for trial in trials if trial.number in own]

    def _with_demos(self, trial: FrozenTrial) -> FrozenTrial:
        """A trial with the demonstration sets that it showed as parameters, also if it ran before these were made."""
        result = next(each for each in self.trials if each.number == trial.number)
        pool, prefix = self.pool_of(result.program), program_prefix(result.program, len(self.programs))
        missing = {p: f"{prefix}demos.{p}" for p in pool.sets if f"{prefix}demos.{p}" not in trial.params}
        if not missing:
            return trial
        shown = {name: result.demonstrations.get(p, pool.own[p]) for p, name in missing.items()}
        choices = {name: CategoricalDistribution(range(pool.sizes[p])) for p, name in missing.items()}
        return create_trial(
            values=trial.values,
            params={**trial.params, **shown},
            distributions={**trial.distributions, **choices},
        )


def _importances(trials: Sequence[FrozenTrial]) -> dict[str, float]:
    from optuna import create_study
    from optuna.importance import get_param_importances
    from optuna.study import StudyDirection

    if len({trial.values[0] for trial in trials}) < 2:
        return {}  # Optuna would call all parameters equally important
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few trials are worth a warning to Optuna
        study = create_study(directions=[StudyDirection.MAXIMIZE for _ in trials[0].values])
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
    try:
        about, trials, demos = study.user_attrs[ABOUT], finished(study), read_demos(study)
        programs, metric, lm = about["programs"], about["metric"], about["language model"][0]
        mode, seed, dev_digest = about["mode"], about["seed"], about["dev questions"]
        cost = cost or about["cost"] or "lm_calls"
    except (KeyError, ValidationError, ValueError, TypeError, IndexError) as error:
        raise StudyError(
            f"study {study.study_name!r} cannot be reported: it was made by something else than knowgap"
        ) from error
    if cost not in COSTS:
        raise UnknownName.among("cost", cost, COSTS)
    stored = study.get_trials(deepcopy=False)
    return StudyFacts(
        study=study,
        programs=programs,
        metric=metric,
        lm=lm,
        pareto=mode == "pareto",
        cost=cost,
        seed=seed,
        dev_digest=dev_digest,
        trials=trials,
        parameters={trial.number: dict(trial.params) for trial in stored},
        unfinished=sum(
            trial.state in (TrialState.RUNNING, TrialState.FAIL) and LEFT_OUT not in trial.user_attrs
            for trial in stored
        ),
        chosen=choose(trials, "best", cost) if any(trial.complete for trial in trials) else None,
        demos=demos,
    )


def matching(facts: StudyFacts, program: str, values: dict[str, Any], n_demos: dict[str, int]) -> TrialResult | None:
    """The best complete trial with these hyperparameters and numbers of demonstrations by predictor, if any.

    It is one of the program of that name, if the study knows the program by it.
    """
    matches = []
    for trial in facts.trials:
        pool = facts.pool_of(trial.program)
        demos = {p: len(pool.sets[p][n]) for p, n in trial.demonstrations.items() if n}
        wanted = {p: n for p, n in n_demos.items() if p in trial.demonstrations}
        is_other = program in facts.programs and trial.program != program
        if trial.complete and not is_other and trial.values == values and demos == wanted:
            matches.append(trial)
    return min(matches, key=rank, default=None)
