"""One process of a study: runs trials until there are enough; see `knowgap.compiling.study.shared`."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import dspy
import numpy as np
from optuna import Study, TrialPruned
from optuna.exceptions import ExperimentalWarning, UpdateFinishedTrialError
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler, PartialFixedSampler
from optuna.trial import FrozenTrial, TrialState

from knowgap.compiling.demonstrations.demo_sets import DemoSets
from knowgap.compiling.evaluation.costs import mean_costs
from knowgap.compiling.evaluation.metrics import Metric
from knowgap.compiling.evaluation.runner import QuestionRecord, resolve_lm, run_questions
from knowgap.compiling.study.config import StudyConfig
from knowgap.compiling.study.initial_trials import InitialTrial
from knowgap.compiling.study.pruning import LEAST_GAIN, expected_gain
from knowgap.compiling.study.racing import in_race
from knowgap.compiling.study.sampler import TrialSeededSampler
from knowgap.compiling.study.shared import read_demos, store_demos
from knowgap.compiling.study.space import PROGRAM, SearchSpace, program_prefix
from knowgap.compiling.study.trials import (
    AFTER_FIRST_ROUND,
    BOOTSTRAPPED,
    CONFIG,
    DEFAULT,
    FINISHED,
    INITIAL,
    RESULT,
    SPENT,
    choose,
    finished,
)
from knowgap.errors import LanguageModelUnreachable, StudyError
from knowgap.lms.cancelling import CallsCancelled
from knowgap.lms.metering import Prices, Usage, UsageTracker, track_usage
from knowgap.programs.base import Program
from knowgap.storage.progress import Progress

if TYPE_CHECKING:
    from optuna import Trial

_LOG = logging.getLogger("knowgap")

_UNFINISHED = (TrialState.WAITING, TrialState.RUNNING)
_CHECK_EVERY = 5  # questions
_LOST_TRIALS = 3  # this many in a row end the run


class _Abandoned(Exception):
    """A trial ends without a result: a limit of the study is reached, or another process does the same."""


@dataclass
class Worker:
    """Runs trials of a study until `n_trials` are finished.

    `known` are settings by program, for which ranges are widened; `questions` the dev questions with their ids, in the
    order in which every trial asks them. `bootstrap` makes a program's demonstrations: it counts its calls with the
    given tracker, and ends with `CallsCancelled` when the given function says that a limit is reached; `demo_prices`
    are those of the model that it asks. The first program is the base of the comparison: its trial with the default
    settings asks all questions. `sampler` and `pruner` are the user's, and replace knowgap's own; a user's sampler
    draws among all programs, including those that are out of the race.
    """

    study: Study
    initial: Sequence[InitialTrial]
    known: Mapping[str, Sequence[Mapping[str, Any]]]
    programs: Mapping[str, Program]
    bootstrap: Callable[[Program, UsageTracker, Callable[[Usage], object]], DemoSets]
    demo_prices: Prices | None
    questions: Sequence[tuple[str, dspy.Example]]
    metric: tuple[str, Metric]
    n_trials: int
    seed: int
    num_threads: int
    config: StudyConfig
    progress: Progress | None
    sampler: BaseSampler | None = None
    pruner: BasePruner | None = None

    def __post_init__(self) -> None:
        self._base = next(iter(self.programs))
        own = TrialSeededSampler(self.seed, self._candidates if len(self.programs) > 1 else None)
        self._sampler = self.sampler or own
        if self.pruner is not None:
            self.study.pruner = self.pruner
        self._started = time.monotonic()
        self.n_finished, self._spent_elsewhere = 0, Usage()
        self._demos = read_demos(self.study)
        self._shows_demos = any(trial.label == BOOTSTRAPPED for trial in self.initial)

    def run(self) -> str:
        """Run trials until there are enough or a limit is reached; return which.

        An initial trial that failed because it lost a question or its process died is run again. The trials with the
        defaults are always run: if their processes may have died, they are run again at the end.

        Raises:
            LanguageModelUnreachable: several trials in a row failed because the language model could not be reached.
        """
        lost = 0
        while not (reason := self._reason_to_end()):
            self.study.sampler = self._sampler
            try:
                self.study.optimize(self._objective, n_trials=1, catch=(_Abandoned,))
                lost = 0
            except LanguageModelUnreachable as error:
                lost += 1
                if lost == _LOST_TRIALS:
                    raise LanguageModelUnreachable(f"{lost} trials in a row failed: {error}") from error
                _LOG.warning("%s; the study goes on", error)
            except UpdateFinishedTrialError:
                continue  # this process was taken for dead, and its trial was failed
            except ValueError as error:
                if not str(error).startswith("Cannot tell a FAIL trial"):  # the same, noticed at the end of the trial
                    raise
        return reason

    def _reason_to_end(self) -> str:
        """Why no further trial is run; if there is no reason, enqueue the missing initial trials and return ""."""
        trials = self.study.get_trials(deepcopy=False)
        self.n_finished = sum(trial.state in FINISHED for trial in trials)
        self._spent_elsewhere = self._spent_by(trials)
        limit, enough = self._limit_reached(Usage()), self.n_finished >= self.n_trials
        if limit and not enough:
            return limit
        done = _initial_numbers(trials, FINISHED)
        if enough:
            # The process that runs a trial may be dead: at the end, an initial trial is not left to another.
            waiting = _initial_numbers(trials, [TrialState.WAITING])
            lost = _initial_numbers(trials, [TrialState.RUNNING, TrialState.FAIL])
            due = [n for n, trial in enumerate(self.initial) if trial.label == DEFAULT or n in lost]
        else:
            waiting = _initial_numbers(trials, _UNFINISHED)
            due = self._due()
        missing = [number for number in due if number not in done]
        if enough and (limit or not missing):
            return "trials"
        for number in missing:
            if number not in waiting:
                self.study.enqueue_trial(self.initial[number].parameters, user_attrs={INITIAL: number})
        return ""

    @property
    def _n_first(self) -> int:
        return sum(trial.label not in AFTER_FIRST_ROUND for trial in self.initial)

    def _due(self) -> list[int]:
        """The initial trials to run, by number; those after the first round are for programs in the race only."""
        late = self._in_race() if len(self.programs) == 1 or self.n_finished >= self._n_first else []
        return [n for n, t in enumerate(self.initial) if t.label not in AFTER_FIRST_ROUND or t.program in late]

    def _in_race(self) -> list[str]:
        """The programs that still get trials: all of them if the cost is an objective as well."""
        if len(self.programs) == 1 or self.config.mode == "pareto":
            return [*self.programs]
        return in_race([*self.programs], finished(self.study), self._n_first, self.n_trials, self.config)

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
        return self._demos.get(name, DemoSets())

    def _objective(self, trial: Trial) -> tuple[float, ...]:
        trial.set_user_attr(SPENT, {})  # a trial that is run again inherits what the one before it spent
        number = trial.user_attrs.get(INITIAL)
        label = "sampled" if number is None else self.initial[number].label
        several = len(self.programs) > 1
        name = trial.suggest_categorical(PROGRAM, [*self.programs]) if several else self._base
        if label == BOOTSTRAPPED:
            self._make_demos(trial, name)
        space, pool = self._space(name), self._pool(name)
        if number is not None:  # other demonstrations may have been made before an initial trial is run again
            shown = {BOOTSTRAPPED: pool.bootstrapped, DEFAULT: {}}
            self._fix(space.parameters({}, shown.get(label, pool.own)))
        values, chosen = space.suggest(trial)
        own = {predictor: 1 for predictor, p in self.programs[name].named_predictors() if cast("Any", p).demos}
        if label == DEFAULT and self._shows_demos:
            chosen = dict.fromkeys(own, 0) | chosen
        chosen = {predictor: n for predictor, n in chosen.items() if n != own.get(predictor, 0)}
        config = {"label": label, "program": name, "values": values, "demonstrations": chosen}
        trial.set_user_attr(CONFIG, config)
        same = self._finished_trial_with(config)
        if same is not None:
            complete, result = same.state == TrialState.COMPLETE, {**same.user_attrs[RESULT], "same_as": same.number}
        else:
            program = pool.apply(self.programs[name].deepcopy().configure(**values), chosen)
            records = self._ask_questions(trial, program, label)
            complete, result = len(records) == len(self.questions), self._result(records)
        trial.set_user_attr(RESULT, result)
        score = float(np.mean(result["scores"]))
        if not self.config.minimized and (complete or self.pruner is None):  # several objectives have no such values
            trial.report(score, len(result["scores"]))
        if not complete:
            raise TrialPruned
        return (score, *(result["costs"][name] for name in self.config.minimized))

    def _fix(self, parameters: Mapping[str, Any]) -> None:
        """Let the running trial take these values instead of drawing them."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            self.study.sampler = PartialFixedSampler(dict(parameters), self._sampler)

    def _make_demos(self, trial: Trial, name: str) -> None:
        """Make the demonstration sets of a program if there are none; of two processes, the first makes them."""
        if name in read_demos(self.study):
            return
        number = trial.user_attrs[INITIAL]
        running = self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        if self.n_finished < self.n_trials and any(
            other.user_attrs.get(INITIAL) == number and other.number < trial.number for other in running
        ):
            raise _Abandoned
        tracker = UsageTracker(self.demo_prices)
        try:
            demos = self.bootstrap(self.programs[name], tracker, self._limit_reached)
        except BaseException as error:
            trial.set_user_attr(SPENT, tracker.usage.model_dump())
            if isinstance(error, CallsCancelled) and self._limit_reached(tracker.usage):
                raise _Abandoned from error
            raise
        store_demos(self.study, name, demos)
        self._spent_elsewhere += demos.spent

    def _finished_trial_with(self, config: dict[str, Any]) -> FrozenTrial | None:
        """The first finished trial that tried the same, was asked itself, and was not stopped if this one never is."""
        names = ("program", "values", "demonstrations")
        states = FINISHED if self._may_stop(config["label"], config["program"]) else (TrialState.COMPLETE,)
        for trial in self.study.get_trials(deepcopy=False, states=states):
            stored = trial.user_attrs
            if all(stored[CONFIG][n] == config[n] for n in names) and stored[RESULT]["same_as"] is None:
                return trial
        return None

    def _may_stop(self, label: str, program: str) -> bool:
        """Whether a trial may be stopped early: any but that of the first program with the defaults."""
        return self.config.prunes and not (label == DEFAULT and program == self._base)

    def _ask_questions(self, trial: Trial, program: Program, label: str) -> list[QuestionRecord]:
        """Ask the dev questions, all of them unless the trial is stopped early."""
        name, metric = self.metric
        tracker, records = UsageTracker(self.config.prices), list[QuestionRecord]()
        may_stop = self._may_stop(label, program.name)
        best = self._best_scores() if may_stop and self.pruner is None else ()
        try:
            stream = run_questions(
                program,
                dict(self.questions),
                {name: metric},
                lm=None if self.n_finished else resolve_lm(None, program),
                num_threads=self.num_threads,
                ahead=2 * self.num_threads,
            )
            self._show_progress(trial, label, records)
            with track_usage(tracker), closing(cast("Any", stream)):
                for record in stream:
                    if record.lost:
                        raise LanguageModelUnreachable(f"question {record.id}: {record.error}")
                    self._check_counted(record)
                    records.append(record)
                    self._show_progress(trial, label, records)
                    if len(records) == len(self.questions):
                        break
                    if len(records) % _CHECK_EVERY == 0:
                        if may_stop and self._is_hopeless(trial, records, best):
                            break
                        self._exchange_spending(trial, tracker.usage)
                    if self._limit_reached(tracker.usage):
                        raise _Abandoned
        except LanguageModelUnreachable as gone:
            raise LanguageModelUnreachable(f"trial {trial.number} failed at {gone}") from gone
        finally:
            trial.set_user_attr(SPENT, tracker.usage.model_dump())
        return records

    def _check_counted(self, record: QuestionRecord) -> None:
        if record.cost.uncounted_calls and self.config.needs_counts:
            raise StudyError(
                f"question {record.id}: its cost, which this study limits or minimises, is not known, since a language "
                "model was called without the meter: ask predictors with Program.ask, or leave the limits out"
            )

    def _result(self, records: Sequence[QuestionRecord]) -> dict[str, Any]:
        scores = [record.scores[self.metric[0]] for record in records]
        return {
            "scores": scores,
            "costs": mean_costs([record.cost for record in records], scores),
            "failed": sum(bool(record.failure) for record in records),
            "same_as": None,
        }

    def _best_scores(self) -> Sequence[float]:
        """The scores of the best complete trial so far; empty if there is none."""
        rivals = [trial for trial in finished(self.study) if trial.complete and self.config.permits(trial.costs)]
        return choose(rivals).scores if rivals else ()

    def _is_hopeless(self, trial: Trial, records: Sequence[QuestionRecord], best: Sequence[float]) -> bool:
        """Whether the trial cannot win, or is beyond the price even if the questions that are left cost nothing."""
        result = self._result(records)
        if self.pruner is not None:
            trial.report(float(np.mean(result["scores"])), len(records))
            if trial.should_prune():
                return True
        if best and expected_gain(result["scores"], best) < LEAST_GAIN:
            return True
        return not self.config.permits(result["costs"], len(records) / len(self.questions))

    def _spent_by(self, trials: Sequence[FrozenTrial]) -> Usage:
        started = [trial for trial in trials if trial.state != TrialState.WAITING]
        made = sum((demos.spent for demos in read_demos(self.study).values()), Usage())
        return sum((Usage(**trial.user_attrs.get(SPENT, {})) for trial in started), made)

    def _exchange_spending(self, trial: Trial, spent: Usage) -> None:
        """Tell other processes what this trial has spent so far, and read what other trials have spent."""
        if self.config.limits_spending:
            trial.set_user_attr(SPENT, spent.model_dump())
            others = [other for other in self.study.get_trials(deepcopy=False) if other.number != trial.number]
            self._spent_elsewhere = self._spent_by(others)

    def _limit_reached(self, spent: Usage) -> str:
        return self.config.exceeded(self._spent_elsewhere + spent, time.monotonic() - self._started)

    def _show_progress(self, trial: Trial, label: str, records: Sequence[QuestionRecord]) -> None:
        if self.progress is not None:
            scores, text = [cast("float", record.scores[self.metric[0]]) for record in records], "asking"
            if scores:
                text = f"{self.metric[0]} {np.mean(scores):.3f} after {len(scores)} of {len(self.questions)}"
            self.progress(self.n_finished, self.n_trials, f"trial {trial.number} ({label}): {text}")


def _initial_numbers(trials: Sequence[FrozenTrial], states: Sequence[TrialState]) -> set[int]:
    """The numbers of the initial trials in these states; Optuna's own `skip_if_exists` would count failed ones."""
    return {trial.user_attrs[INITIAL] for trial in trials if trial.state in states and INITIAL in trial.user_attrs}
