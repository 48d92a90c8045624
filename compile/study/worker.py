"""One process of a study: runs trials until there are enough; see `knowgap.compiling.study.shared`."""

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
from knowgap.compiling.study.config import StudyConfig
from knowgap.compiling.study.initial_trials import InitialTrial
from knowgap.compiling.study.search.price_limit import PriceLimit
from knowgap.compiling.study.search.pruning import Pruner
from knowgap.compiling.study.search.racing import in_race
from knowgap.compiling.study.search.sampler import TrialSeededSampler
from knowgap.compiling.study.search.space import PROGRAM, SearchSpace, program_prefix
from knowgap.compiling.study.shared import MadeDemos, read_demos, store_demos
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
)
from knowgap.errors import LanguageModelUnreachable
from knowgap.lms.metering import Usage, UsageTracker, track_usage
from knowgap.programs.base import Program
from knowgap.storage.progress import Progress

if TYPE_CHECKING:
    from optuna import Trial

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
    """An initial trial is not run: its program has left the race, or another process runs it."""


@dataclass
class Worker:
    """Runs trials of a study.

    Args:
        study: Optuna's study.
        initial: the initial trials, in their order.
        known: by program, settings that are tried besides the defaults and the program's own; ranges are widened to
            hold them.
        programs: by name; the first is the base of the comparison, whose trial with the paper's settings is always
            finished.
        bootstrap: makes the demonstration sets of a program.
        questions: the dev questions with their ids, in the order in which every trial asks them.
        metric: its name and function.
        n_trials: number of finished trials at which the process stops.
        seed: the seed of every random choice.
        num_threads: how many questions are asked at a time.
        config: how the study searches, and its limits.
        limit: what a question may cost in the trial that is chosen.
        progress: called after every question.
    """

    study: Study
    initial: Sequence[InitialTrial]
    known: Mapping[str, Sequence[Mapping[str, Any]]]
    programs: Mapping[str, Program]
    bootstrap: Callable[[Program], MadeDemos]
    questions: Sequence[tuple[str, dspy.Example]]
    metric: tuple[str, Metric]
    n_trials: int
    seed: int
    num_threads: int
    config: StudyConfig
    limit: PriceLimit
    progress: Progress | None

    def __post_init__(self) -> None:
        self._sampler = TrialSeededSampler(self.seed, self._candidates if len(self.programs) > 1 else None)
        self.study.sampler = self._sampler
        self._started = time.monotonic()
        self._n_finished, self._spent_elsewhere, self._lost_in_a_row = 0, Usage(), 0
        self._demos = read_demos(self.study)
        self._shows_demos = any(trial.label == BOOTSTRAPPED for trial in self.initial)

    def run(self) -> str:
        """Run trials until `n_trials` are finished or a limit is reached; say which.

        The trials with the paper's settings are always among them: where a process died, its is run again at the end.
        A trial that loses a question fails, and if it is one of the initial ones, it is run again.

        Raises:
            LanguageModelUnreachable: several trials in a row have failed so.
        """
        self._enqueue_missing((*_FINISHED, TrialState.WAITING, TrialState.RUNNING))
        while True:
            trials = self.study.get_trials(deepcopy=False)
            self._n_finished = sum(trial.state in _FINISHED for trial in trials)
            self._spent_elsewhere = self._spent_by(trials)
            limit = self._limit_reached(Usage())
            if self._n_finished >= self.n_trials:
                if limit or not self._missing(_FINISHED, PAPER):
                    return "trials"
                self._enqueue_missing((*_FINISHED, TrialState.WAITING), PAPER)
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

    def _missing(self, states: Sequence[TrialState], label: str = "") -> list[int]:
        """The initial trials, by number, of which there is none in one of the states, and that were not left out.

        Optuna's own `skip_if_exists` does not serve: to it, a failed trial exists.
        """
        trials = self.study.get_trials(deepcopy=False)
        present = {t.user_attrs.get(INITIAL) for t in trials if t.state in states or LEFT_OUT in t.user_attrs}
        return [n for n, t in enumerate(self.initial) if n not in present and label in ("", t.label)]

    def _enqueue_missing(self, states: Sequence[TrialState], label: str = "") -> None:
        for number in self._missing(states, label):
            self._enqueue(number)

    def _enqueue(self, number: int) -> None:
        self.study.enqueue_trial(self.initial[number].parameters, user_attrs={INITIAL: number})

    def _in_race(self) -> list[str]:
        """The programs that still get trials: all of them while the cost is an objective as well."""
        if len(self.programs) == 1 or self.config.mode == "pareto":
            return [*self.programs]
        n_first = sum(trial.label not in AFTER_FIRST_ROUND for trial in self.initial)
        return in_race([*self.programs], finished(self.study), n_first, self.n_trials, self.limit)

    def _candidates(self) -> list[str]:
        """The programs that a trial may draw: those in the race that have anything to draw."""
        names = self._in_race()
        return [name for name in names if self._space(name).is_searchable] or names

    def _space(self, name: str) -> SearchSpace:
        """A program's search space, with its demonstrations as soon as they are made."""
        if name not in self._demos and self._shows_demos:
            self._demos = read_demos(self.study)
        prefix = program_prefix(name, len(self.programs))
        return SearchSpace(
            self.programs[name],
            self.config.of_program(prefix),
            num_demo_sets=self._pool(name).sizes,
            known=self.known[name],
            prefix=prefix,
        )

    def _pool(self, name: str) -> DemoSets:
        return self._demos[name].pool if name in self._demos else DemoSets()

    def _after_lost_trial(self, lost: _QuestionLost) -> None:
        """Enqueue a failed initial trial again, unless too many have failed."""
        self._lost_in_a_row += 1
        if self._lost_in_a_row >= _LOST_TRIALS:
            raise LanguageModelUnreachable(f"{self._lost_in_a_row} trials in a row failed: {lost}") from lost
        _LOG.warning("%s; the study goes on", lost)
        failed = next(t for t in self.study.get_trials(deepcopy=False) if t.number == lost.trial)
        number = failed.user_attrs.get(INITIAL)
        if number is not None:
            self._enqueue(number)

    def _objective(self, trial: Trial) -> float | tuple[float, float]:
        trial.set_user_attr(SPENT, {})  # a trial that is run again inherits what the one before it spent
        number = trial.user_attrs.get(INITIAL)
        label = "sampled" if number is None else self.initial[number].label
        name = self._choose_program(trial, label)
        space = self._space(name)
        self._sampler.fixed = space.parameters({}, self._pool(name).bootstrapped) if label == BOOTSTRAPPED else {}
        values, chosen = space.suggest(trial)
        if label == PAPER and self._shows_demos:
            chosen = {**dict.fromkeys(self._brought(name), 0), **chosen}
        config = {"label": label, "program": name, "values": values, "demonstrations": chosen}
        trial.set_user_attr(CONFIG, config)
        same = self._finished_trial_with(config)
        if same is not None:
            complete = same.state == TrialState.COMPLETE
            result = {**same.user_attrs[RESULT], "same_as": same.number, "spent": Usage().model_dump()}
            self._report(trial, result["scores"])
        else:
            program = self._pool(name).apply(self.programs[name].deepcopy().configure(**values), chosen)
            result, complete = self._ask_questions(trial, program, label)
        trial.set_user_attr(RESULT, result)
        if not complete:
            raise TrialPruned
        score = float(np.mean(result["scores"]))
        return score if self.config.mode == "single" else (score, result["costs"][self.config.cost])

    def _choose_program(self, trial: Trial, label: str) -> str:
        """Let a trial choose its program, and make the program's demonstrations if it shows them first."""
        base = next(iter(self.programs))
        name = trial.suggest_categorical(PROGRAM, [*self.programs]) if len(self.programs) > 1 else base
        if label in AFTER_FIRST_ROUND and name not in self._in_race():
            trial.set_user_attr(LEFT_OUT, True)
            raise _LeftOut
        if label == BOOTSTRAPPED and name not in read_demos(self.study):
            number = trial.user_attrs[INITIAL]
            running = self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
            if any(t.user_attrs.get(INITIAL) == number and t.number < trial.number for t in running):
                raise _LeftOut  # two processes enqueued it at the same time, and the other one makes them
            store_demos(self.study, name, self.bootstrap(self.programs[name]))
        return name

    def _brought(self, name: str) -> list[str]:
        """The predictors for which a program brings demonstrations along: they are set 1, as soon as there are sets."""
        return [predictor for predictor, p in self.programs[name].named_predictors() if cast("Any", p).demos]

    def _finished_trial_with(self, config: dict[str, Any]) -> FrozenTrial | None:
        """The first finished trial that tried the same and was asked itself."""

        def tried(config: Mapping[str, Any]) -> list[Any]:
            chosen = {**dict.fromkeys(self._brought(config["program"]), 1), **config["demonstrations"]}
            return [config["program"], config["values"], {p: n for p, n in chosen.items() if n}]

        trials = self.study.get_trials(deepcopy=False, states=_FINISHED)
        same = (t for t in trials if tried(t.user_attrs[CONFIG]) == tried(config))
        return next((t for t in same if t.user_attrs[RESULT]["same_as"] is None), None)

    def _ask_questions(self, trial: Trial, program: Program, label: str) -> tuple[dict[str, Any], bool]:
        """Ask the dev questions until the pruner stops the trial; return its result, and whether all were asked."""
        name, metric = self.metric
        tracker = UsageTracker(self.config.prices)
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
                        if self.config.prunes and not is_yardstick and self._is_too_expensive(records):
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

    def _is_too_expensive(self, records: Sequence[QuestionRecord]) -> bool:
        """Whether the trial is beyond the price even if the questions that are left cost nothing."""
        costs = mean_costs([record.cost for record in records])
        return not self.limit.permits(costs, len(records) / len(self.questions))

    def _spent_by(self, trials: Sequence[FrozenTrial]) -> Usage:
        started = [trial for trial in trials if trial.state != TrialState.WAITING]
        made = sum((each.spent for each in read_demos(self.study).values()), Usage())
        return sum((Usage(**trial.user_attrs.get(SPENT, {})) for trial in started), made)

    def _exchange_spending(self, trial: Trial, spent: Usage) -> None:
        """Tell other processes what this trial has spent so far, and read what theirs have."""
        if self.config.limits_spending:
            trial.set_user_attr(SPENT, spent.model_dump())
            others = [other for other in self.study.get_trials(deepcopy=False) if other.number != trial.number]
            self._spent_elsewhere = self._spent_by(others)

    def _limit_reached(self, spent: Usage) -> str:
        return self.config.exceeded(self._spent_elsewhere + spent, time.monotonic() - self._started)

    def _report(self, trial: Trial, scores: list[float]) -> None:
        if self.config.mode == "single":  # Optuna takes intermediate values of a single objective only
            trial.report(float(np.mean(scores)), len(scores))

    def _show_progress(self, trial: Trial, scores: list[float], label: str) -> None:
        if self.progress is not None:
            mean = f"{self.metric[0]} {np.mean(scores):.3f} after {len(scores)} of {len(self.questions)}"
            self.progress(self._n_finished, self.n_trials, f"trial {trial.number} ({label}): {mean}")
