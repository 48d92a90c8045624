"""One worker of a study: takes trials until there are enough, and gives way to the others."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import dspy
import numpy as np
from optuna import TrialPruned
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState

from knowgap.compile.demonstrations.demo_sets import DemonstrationPool
from knowgap.compile.evaluation.evaluator import Progress
from knowgap.compile.evaluation.metrics import Metric
from knowgap.compile.evaluation.provenance import digest
from knowgap.compile.evaluation.results import COSTS
from knowgap.compile.evaluation.runner import QuestionRecord, map_ordered, run_example
from knowgap.compile.study.budget import Budget, BudgetSpent, Meter, Spent, metering
from knowgap.compile.study.liveness import WORKER, alive, bury_dead_trials, this_worker
from knowgap.compile.study.pruning import Rival
from knowgap.compile.study.record import Planned
from knowgap.compile.study.search_space import Space
from knowgap.compile.study.storage import FileLock
from knowgap.compile.study.trials import CONFIG, PAPER, RESULT, choose, finished
from knowgap.errors import LanguageModelUnreachable
from knowgap.programs.base import Program

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

__all__ = ["Session"]

_POLL_SECONDS = 0.2
_PRUNE_EVERY = 5
_LEAST_ASKED = 15  # the test is exact, and slow, for fewer than fourteen
_FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
_COUNTING = (*_FINISHED, TrialState.RUNNING)


class _Surplus(Exception):
    """The trial is not needed: others have taken its place."""


@dataclass
class Session:
    """What a worker needs.

    Args:
        study: Optuna's study, with its sampler.
        one_machine: whether it is kept in a file.
        turn: a lock under which trials are taken; None where the storage needs none.
        program: the program whose settings are tried.
        space: the search space.
        pool: the demonstrations to choose from.
        plan: trials to begin with.
        questions: the dev questions with their ids, in the order in which every trial asks them.
        metric: its name and function.
        n_trials: finished trials at the end.
        num_threads: questions at a time.
        budget: limits.
        before: what setting up cost.
        prune: whether trials may stop early.
        cost: the second objective; None where there is one alone.
        progress: called after every question.
    """

    study: Study
    one_machine: bool
    turn: FileLock | None
    program: Program
    space: Space
    pool: DemonstrationPool
    plan: Sequence[Planned]
    questions: Sequence[tuple[str, dspy.Example]]
    metric: tuple[str, Metric]
    n_trials: int
    num_threads: int
    budget: Budget
    before: Spent
    prune: bool
    cost: str | None
    progress: Progress | None

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self._done, self._spent = 0, self.before

    def run(self) -> str:
        """Take trials until there are `n_trials`, or a limit is reached; say which.

        Raises:
            LanguageModelUnreachable: the language model is lost.
        """
        while True:
            self._bury_dead_trials()
            trials = self.study.get_trials(deepcopy=False)
            self._done = sum(trial.state in _FINISHED for trial in trials)
            self._spent = self._spent_by(trials)
            if self._done >= self.n_trials:
                return "trials"
            limit = self._limit(Spent())
            if limit:
                return limit
            if sum(trial.state in _COUNTING for trial in trials) >= self.n_trials:
                time.sleep(_POLL_SECONDS)  # others are at the last trials; one of them may yet die
                continue
            try:
                if self.turn is not None:
                    self.turn.acquire()  # until the trial is this worker's: see _objective
                self._enqueue()
                self.study.optimize(self._objective, n_trials=1, catch=(_Surplus,))
            except BudgetSpent as reached:
                return str(reached)
            except UpdateFinishedTrialError:
                continue  # another worker took this one for dead, and the trial with it
            except ValueError as error:
                if not str(error).startswith("Cannot tell a FAIL trial"):  # the same, noticed at the end
                    raise
            finally:
                self._pass_on()

    def _bury_dead_trials(self) -> None:
        """In turn: a waiting trial bears the name of who prepared it until who takes it has put theirs there."""
        try:
            if self.turn is not None:
                self.turn.acquire()
            bury_dead_trials(self.study, one_machine=self.one_machine)
        finally:
            self._pass_on()

    def _spent_by(self, trials: Sequence[FrozenTrial]) -> Spent:
        return sum((Spent(**trial.user_attrs.get("spent", {})) for trial in trials), self.before)

    def _share_spending(self, trial: Trial, now: Spent) -> None:
        """Tell the other workers what this trial has spent so far, and hear it from them."""
        if self.budget.calls or self.budget.tokens or self.budget.money:
            trial.set_user_attr("spent", now.model_dump())
            others = [t for t in self.study.get_trials(deepcopy=False) if t.number != trial.number]
            self._spent = self._spent_by(others)

    def _limit(self, now: Spent) -> str:
        return self.budget.exceeded(self._spent + now, time.monotonic() - self._began)

    def _pass_on(self) -> None:
        if self.turn is not None:
            self.turn.release()

    def _enqueue(self) -> None:
        """Prepare the next trial under this worker's name: the next planned one, or else one that is to be drawn."""
        trials = self.study.get_trials(deepcopy=False)
        begun = {trial.user_attrs.get("plan") for trial in trials if trial.state != TrialState.FAIL}
        left = [number for number in range(len(self.plan)) if number not in begun]
        if left:
            attributes = {WORKER: this_worker(), "plan": left[0]}
            self.study.enqueue_trial(self.plan[left[0]].parameters, user_attrs=attributes)
        elif not any(trial.state == TrialState.WAITING for trial in trials):
            self.study.enqueue_trial({}, user_attrs={WORKER: this_worker()})

    def _objective(self, trial: Trial) -> float | tuple[float, float]:
        trial.set_user_attr(WORKER, this_worker())
        self._claim_place(trial)
        self._pass_on()
        values, chosen = self.space.suggest(trial)
        plan = trial.user_attrs.get("plan")
        label = "sampled" if plan is None else self.plan[plan].label
        key = digest([values, chosen])
        trial.set_user_attr(CONFIG, {"label": label, "values": values, "demonstrations": chosen, "key": key})
        earlier = self._same(trial, key)
        if earlier is not None:
            complete = earlier.state == TrialState.COMPLETE
            result = {**earlier.user_attrs[RESULT], "same_as": earlier.number, "spent": Spent().model_dump()}
            self._report(trial, result["scores"])
        else:
            program = self.pool.apply(self.program.deepcopy().configure(**values), chosen)
            result, complete = self._ask(trial, program, label)
        trial.set_user_attr(RESULT, result)
        if not complete:
            raise TrialPruned
        score = float(np.mean(result["scores"]))
        return score if self.cost is None else (score, result["costs"][self.cost])

    def _claim_place(self, trial: Trial) -> None:
        """Give way where this trial is one too many, or a planned one that another worker has begun.

        And where a trial before it still waits to be taken: of two that try the same the later waits for the earlier,
        so that they have to begin in the order of their numbers.
        """
        present = self.study.get_trials(deepcopy=False, states=(*_COUNTING, TrialState.WAITING))
        before = [other for other in present if other.number < trial.number]
        plan = trial.user_attrs.get("plan")
        begun = plan is not None and any(other.user_attrs.get("plan") == plan for other in before)
        if len(before) >= self.n_trials or begun or any(other.state == TrialState.WAITING for other in before):
            raise _Surplus

    def _same(self, trial: Trial, key: str) -> FrozenTrial | None:
        """The finished trial that tried the same; waits where another worker is at it, or has yet to say at what."""
        while True:
            others = self.study.get_trials(deepcopy=False, states=_COUNTING)
            tried = {t.number: t.user_attrs.get(CONFIG, {}).get("key") for t in others if t.number != trial.number}
            found = next((t for t in others if tried.get(t.number) == key and t.state in _FINISHED), None)
            if found is not None:
                return found
            ahead = [t for t in others if t.state == TrialState.RUNNING and t.number < trial.number]
            unsettled = [t for t in ahead if tried[t.number] in (key, None) and WORKER in t.user_attrs]
            if not any(alive(t.user_attrs[WORKER]) is not False for t in unsettled):
                return None
            time.sleep(_POLL_SECONDS)

    def _report(self, trial: Trial, scores: list[float]) -> None:
        if self.cost is None:  # Optuna takes intermediate values of a single objective alone
            trial.report(float(np.mean(scores)), len(scores))

    def _ask(self, trial: Trial, program: Program, label: str) -> tuple[dict[str, Any], bool]:
        """Ask the dev questions in the study's order; stop early where the pruner says so."""
        name, metric = self.metric
        meter = Meter(self.budget.prices)
        records: list[QuestionRecord] = []
        scores: list[float] = []
        complete = True
        rival = self._rival() if label != PAPER else None  # what the others are measured against is always finished

        def ask(question: tuple[str, dspy.Example]) -> QuestionRecord:
            return run_example(program, question[1], question[0], {name: metric})

        try:
            stream = map_ordered(ask, self.questions, self.num_threads, 2 * self.num_threads)
            with metering(meter), closing(cast("Any", stream)):
                for step, record in enumerate(stream, start=1):
                    if record.lost:
                        raise LanguageModelUnreachable(f"the language model could not be reached: {record.error}")
                    records.append(record)
                    scores.append(cast("float", record.scores[name]))
                    self._tell(trial, scores, label)
                    if step == len(self.questions):
                        break
                    if rival is not None and step % _PRUNE_EVERY == 0 and rival.beats(scores):
                        complete = False
                        break
                    if step % _PRUNE_EVERY == 0:
                        self._share_spending(trial, meter.spent)
                    limit = self._limit(meter.spent)
                    if limit:
                        raise BudgetSpent(limit)
        finally:
            trial.set_user_attr("spent", meter.spent.model_dump())
        self._report(trial, scores)
        costs = {cost: float(np.mean([read(record) for record in records])) for cost, read in COSTS.items()}
        failed = sum(bool(record.error) for record in records)
        spent = meter.spent.model_dump()
        return {"scores": scores, "costs": costs, "failed": failed, "spent": spent, "same_as": None}, complete

    def _rival(self) -> Rival | None:
        """The best complete trial so far, where trials may stop early."""
        done = finished(self.study) if self.prune else []
        if not any(trial.complete for trial in done):
            return None
        return Rival(choose(done).scores, max(_LEAST_ASKED, len(self.questions) // 10))

    def _tell(self, trial: Trial, scores: list[float], label: str) -> None:
        if self.progress is not None:
            mean = f"{self.metric[0]} {np.mean(scores):.3f} after {len(scores)} of {len(self.questions)}"
            self.progress(self._done, self.n_trials, f"trial {trial.number} ({label}): {mean}")
