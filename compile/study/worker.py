"""One process of a study: runs trials until there are enough; see `knowgap.compiling.study.shared_study`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import dspy
import numpy as np
from optuna import Study, TrialPruned
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState

from knowgap.compiling.demonstrations.demo_sets import DemoSets
from knowgap.compiling.evaluation.costs import mean_costs
from knowgap.compiling.evaluation.metrics import Metric
from knowgap.compiling.evaluation.runner import QuestionRecord, resolve_lm, run_questions
from knowgap.compiling.study.config import Budget, StudyConfig
from knowgap.compiling.study.search.price_limit import PriceLimit
from knowgap.compiling.study.search.pruning import Pruner
from knowgap.compiling.study.search.racing import in_race
from knowgap.compiling.study.search.sampler import TrialSeededSampler
from knowgap.compiling.study.search.space import PROGRAM, SearchSpace, program_prefix
from knowgap.compiling.study.shared_study import MadeDemos, SetUp, enqueue, read_demos, read_set_up, store_demos
from knowgap.compiling.study.trials import (
    AFTER_FIRST_ROUND,
    BOOTSTRAPPED,
    CONFIG,
    INITIAL,
    LEFT_OUT,
    PAPER,
    RESULT,
    SPENT,
    choose,
    finished,
    seal,
)
from knowgap.errors import LanguageModelUnreachable
from knowgap.lms.metering import Usage, UsageTracker, track_usage
from knowgap.programs.base import Program
from knowgap.storage.progress import Progress

if TYPE_CHECKING:
    from optuna import Trial

__all__ = ["Worker"]

_LOG = logging.getLogger("knowgap")

_CHECK_EVERY = 5  # questions
_LEAST_ASKED = 15  # questions; the pruner's test is exact, and slow, for fewer than fourteen
_FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)


_ATTEMPTS = 3  # how often a trial asks a question for which the language model cannot be reached
_LOST_TRIALS = 3  # so many in a row end the run


class _BudgetSpent(Exception):
    """A limit was reached in the middle of a trial."""


class _QuestionLost(Exception):
    """The language model could not be reached for a question, several times over; the trial fails."""

    def __init__(self, trial: int, why: str):
        self.trial = trial
        super().__init__(f"trial {trial} failed at {why}")


class _LeftOut(Exception):
    """An initial trial is not run, since its program has left the race."""


@dataclass
class Worker:
    """Runs trials of a study.

    Args:
        programs: by name; the first is the base of the comparison, whose trial with the paper's settings is always
            finished.
        bootstrap: makes the demonstration sets of a program.
        questions: the dev questions with their ids, in the order in which every trial asks them.
        metric: its name and function.
        n_trials: number of finished trials at which the process stops.
        limit: what a question may cost in the trial that is chosen.
    """

    study: Study
    set_up: SetUp
    programs: Mapping[str, Program]
    bootstrap: Callable[[Program], MadeDemos]
    questions: Sequence[tuple[str, dspy.Example]]
    metric: tuple[str, Metric]
    n_trials: int
    seed: int
    num_threads: int
    config: StudyConfig
    budget: Budget
    limit: PriceLimit
    progress: Progress | None

    def __post_init__(self) -> None:
        self._sampler = TrialSeededSampler(self.seed, self._candidates if len(self.programs) > 1 else None)
        self.study.sampler = self._sampler
        self._started = time.monotonic()
        self._n_finished, self._spent_elsewhere = 0, self.set_up.spent
        self._lost_in_a_row = 0

    def run(self) -> str:
        """Run trials until `n_trials` are finished or a limit is reached; say which.

        The trials with the paper's settings are always among them: where a process died, its is run again at the end.
        A trial that loses a question fails, and if it is one of the initial ones, it is run again.

        Raises:
            LanguageModelUnreachable: several trials in a row have failed so.
        """
        while True:
            trials = self.study.get_trials(deepcopy=False)
            self._n_finished = sum(trial.state in _FINISHED for trial in trials)
            self._spent_elsewhere = self._spent_by(trials)
            limit = self._limit_reached(Usage())
            if self._n_finished >= self.n_trials:
                missing = self._missing_papers(trials, _FINISHED)
                if limit or not missing:
                    return "trials"
                for number in self._missing_papers(trials, (*_FINISHED, TrialState.WAITING)):
                    enqueue(self.study, number, self.set_up.initial[number])
            if limit:
                return limit
            try:
                self.study.optimize(self._objective, n_trials=1)
                self._lost_in_a_row = 0
            except _QuestionLost as lost:
                self._after_lost_trial(lost)
            except _BudgetSpent as reached:
                return str(reached)
            except _LeftOut:
                continue
            except UpdateFinishedTrialError:
                continue  # this process was taken for dead, and its trial was failed
            except ValueError as error:
                if not str(error).startswith("Cannot tell a FAIL trial"):  # the same, noticed at the end of the trial
                    raise

    def _missing_papers(self, trials: Sequence[FrozenTrial], states: Sequence[TrialState]) -> list[int]:
        """The initial trials with a paper's settings, by number, of which there is none in one of the states."""
        present = {trial.user_attrs.get(INITIAL) for trial in trials if trial.state in states}
        return [n for n, trial in enumerate(self.set_up.initial) if trial.label == PAPER and n not in present]

    def _in_race(self) -> list[str]:
        """The programs that still get trials: all of them while the cost is an objective as well."""
        if len(self.programs) == 1 or self.config.mode == "pareto":
            return [*self.programs]
        n_first = sum(trial.label not in AFTER_FIRST_ROUND for trial in self.set_up.initial)
        return in_race([*self.programs], finished(self.study), n_first, self.n_trials, self.limit)

    def _candidates(self) -> list[str]:
        """The programs that a trial may draw: those in the race that have anything to draw."""
        names = self._in_race()
        return [name for name in names if self._space(name).is_searchable] or names

    def _space(self, name: str) -> SearchSpace:
        """A program's search space, with its demonstrations as soon as they are made."""
        if name not in self.set_up.demos and (made := read_demos(self.study, name)) is not None:
            self.set_up.demos[name] = made
        prefix = program_prefix(name, len(self.programs))
        return SearchSpace(
            self.programs[name],
            self.config.of_program(prefix),
            num_demo_sets=self._pool(name).sizes,
            known=self.set_up.known[name],
            prefix=prefix,
        )

    def _pool(self, name: str) -> DemoSets:
        return self.set_up.demos[name].pool if name in self.set_up.demos else DemoSets()

    def _after_lost_trial(self, lost: _QuestionLost) -> None:
        """Enqueue a failed initial trial again, unless too many have failed."""
        self._lost_in_a_row += 1
        if self._lost_in_a_row >= _LOST_TRIALS:
            raise LanguageModelUnreachable(f"{self._lost_in_a_row} trials in a row failed: {lost}") from lost
        _LOG.warning("%s; the study goes on", lost)
        failed = next(t for t in self.study.get_trials(deepcopy=False) if t.number == lost.trial)
        number = failed.user_attrs.get(INITIAL)
        if number is not None:
            enqueue(self.study, number, self.set_up.initial[number])

    def _objective(self, trial: Trial) -> float | tuple[float, float]:
        trial.set_user_attr(SPENT, {})  # a trial that is run again inherits what the one before it spent
        number = trial.user_attrs.get(INITIAL)
        label = "sampled" if number is None else self.set_up.initial[number].label
        name = self._choose_program(trial, label)
        space = self._space(name)
        self._sampler.fixed = space.parameters({}, self._pool(name).bootstrapped) if label == BOOTSTRAPPED else {}
        values, chosen = space.suggest(trial)
        config = {"label": label, "program": name, "values": values, "demonstrations": chosen}
        trial.set_user_attr(CONFIG, config)
        same = self._finished_trial_with(trial.params)
        if same is not None:
            complete = same.state == TrialState.COMPLETE
            result = {**same.user_attrs[RESULT], "same_as": same.number, "spent": Usage().model_dump()}
            self._report(trial, result["scores"])
        else:
            program = self._pool(name).apply(self.programs[name].deepcopy().configure(**values), chosen)
            result, complete = self._ask_questions(trial, program, label)
        trial.set_user_attr(RESULT, result)
        seal(trial, complete=complete)
        if not complete:
            raise TrialPruned
        score = float(np.mean(result["scores"]))
        return score if self.config.mode == "single" else (score, result["costs"][self.config.cost])

    def _choose_program(self, trial: Trial, label: str) -> str:
        """Let a trial choose its program, and make the program's demonstrations if it needs them."""
        base = next(iter(self.programs))
        name = trial.suggest_categorical(PROGRAM, [*self.programs]) if len(self.programs) > 1 else base
        if label in AFTER_FIRST_ROUND and name not in self._in_race():
            trial.set_user_attr(LEFT_OUT, True)
            raise _LeftOut
        if label == BOOTSTRAPPED and name not in self.set_up.demos and read_demos(self.study, name) is None:
            store_demos(self.study, name, self.bootstrap(self.programs[name]))
        return name

    def _finished_trial_with(self, parameters: dict[str, Any]) -> FrozenTrial | None:
        """The first finished trial that tried the same and was asked itself."""
        trials = self.study.get_trials(deepcopy=False, states=_FINISHED)
        return next((t for t in trials if t.params == parameters and t.user_attrs[RESULT]["same_as"] is None), None)

    def _ask_questions(self, trial: Trial, program: Program, label: str) -> tuple[dict[str, Any], bool]:
        """Ask the dev questions until the pruner stops the trial; return its result, and whether all were asked."""
        name, metric = self.metric
        tracker = UsageTracker(self.budget.prices)
        records: list[QuestionRecord] = []
        scores: list[float] = []
        is_yardstick = label == PAPER and program.name == next(iter(self.programs))
        pruner = None if is_yardstick else self._pruner()

        try:
            stream = run_questions(
                program,
                dict(self.questions),
                {name: metric},
                lm=None if self._n_finished else resolve_lm(None, program),
                num_threads=self.num_threads,
                ahead=2 * self.num_threads,
                attempts=_ATTEMPTS,
            )
            with track_usage(tracker), closing(cast("Any", stream)):
                for record in stream:
                    if record.lost:
                        raise _QuestionLost(trial.number, f"question {record.id}: {record.error}")
                    records.append(record)
                    scores.append(cast("float", record.scores[name]))
                    self._show_progress(trial, scores, label)
                    if len(scores) == len(self.questions):
                        break
                    if len(scores) % _CHECK_EVERY == 0:
                        if pruner is not None and pruner.should_prune(scores):
                            break
                        if self.config.prunes and not is_yardstick and self._is_too_dear(records):
                            break
                        self._exchange_spending(trial, tracker.usage)
                    limit = self._limit_reached(tracker.usage)
                    if limit:
                        raise _BudgetSpent(limit)
        except LanguageModelUnreachable as gone:
            raise _QuestionLost(trial.number, str(gone)) from gone
        finally:
            trial.set_user_attr(SPENT, tracker.usage.model_dump())
        self._report(trial, scores)
        result = {
            "scores": scores,
            "costs": mean_costs([record.cost for record in records]),
            "failed": sum(bool(record.error) for record in records),
            "spent": tracker.usage.model_dump(),
            "same_as": None,
        }
        return result, len(scores) == len(self.questions)

    def _pruner(self) -> Pruner | None:
        """Compares a trial with the best complete one so far, if trials may stop early and there is one."""
        trials = finished(self.study) if self.config.prunes else []
        rivals = [trial for trial in trials if trial.complete and self.limit.permits(trial.costs)]
        if not rivals:
            return None
        return Pruner(choose(rivals).scores, max(_LEAST_ASKED, len(self.questions) // 10))

    def _is_too_dear(self, records: Sequence[QuestionRecord]) -> bool:
        """Whether the trial is beyond the price even if the questions that are left cost nothing."""
        costs = mean_costs([record.cost for record in records])
        return not self.limit.permits(costs, len(records) / len(self.questions))

    def _spent_by(self, trials: Sequence[FrozenTrial]) -> Usage:
        started = [trial for trial in trials if trial.state != TrialState.WAITING]
        made = read_set_up(self.study).spent if len(self.programs) > 1 else self.set_up.spent
        return sum((Usage(**trial.user_attrs.get(SPENT, {})) for trial in started), made)

    def _exchange_spending(self, trial: Trial, spent: Usage) -> None:
        """Tell other processes what this trial has spent so far, and read what theirs have."""
        if self.budget.limits_spending:
            trial.set_user_attr(SPENT, spent.model_dump())
            others = [other for other in self.study.get_trials(deepcopy=False) if other.number != trial.number]
            self._spent_elsewhere = self._spent_by(others)

    def _limit_reached(self, spent: Usage) -> str:
        return self.budget.exceeded(self._spent_elsewhere + spent, time.monotonic() - self._started)

    def _report(self, trial: Trial, scores: list[float]) -> None:
        if self.config.mode == "single":  # Optuna takes intermediate values of a single objective only
            trial.report(float(np.mean(scores)), len(scores))

    def _show_progress(self, trial: Trial, scores: list[float], label: str) -> None:
        if self.progress is not None:
            mean = f"{self.metric[0]} {np.mean(scores):.3f} after {len(scores)} of {len(self.questions)}"
            self.progress(self._n_finished, self.n_trials, f"trial {trial.number} ({label}): {mean}")
