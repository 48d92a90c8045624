"""A program's score as an objective, for `study.optimize`: of the studies of `compile`, and of a user's own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Generic, TypeVar, cast

import dspy
import numpy as np
from optuna import Trial, TrialPruned
from optuna.trial import FixedTrial, FrozenTrial

from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.demonstrations.demo_sets import DemoSets
from knowgap.compiling.evaluation.costs import mean_costs
from knowgap.compiling.evaluation.metrics import Metrics, named_metrics
from knowgap.compiling.evaluation.metrics.missing_gold import without_missing_gold
from knowgap.compiling.evaluation.runner import check_examples, resolve_lm, run_questions
from knowgap.compiling.run import Run
from knowgap.compiling.study.attributes import COSTS, DEFAULT, LABEL, SPENT, spent_in
from knowgap.compiling.study.config import StudyConfig
from knowgap.compiling.study.space import SearchSpace
from knowgap.errors import LanguageModelUnreachable, StudyError
from knowgap.lms.cancelling import CallsCancelled, run_cancellable
from knowgap.lms.metering import Prices, Usage, UsageTracker, track_usage, without_history
from knowgap.programs.base import Program
from knowgap.programs.modules import as_program
from knowgap.programs.trace.trace import Cost

P = TypeVar("P", bound=Program)
T = TypeVar("T")

_BLOCK = 5  # questions between two decisions whether to stop a trial


class BudgetSpent(Exception):
    """A limit of a study is reached: a trial ends without a result, to be run again under a higher limit."""


class Purse(UsageTracker):
    """Counts calls, and cancels what is run with `paying` once a limit of a study is reached.

    `prices` are those of the model that is asked, `before` is what the study has spent so far, and `started` is when it
    began, by `time.monotonic`.
    """

    def __init__(self, config: StudyConfig, prices: Prices | None, before: Usage, started: float) -> None:
        super().__init__(prices)
        self._config, self._before, self._started, self._over = config, before, started, threading.Event()

    def reached(self) -> str:
        """Which limit is reached, in words; empty if none is."""
        return self._config.exceeded(self._before + self.usage, time.monotonic() - self._started)

    def add(self, usage: Usage) -> None:
        """Count calls; let no further one begin if a limit is reached."""
        super().add(usage)
        if self.reached():
            self._over.set()

    def paying(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a function; `BudgetSpent` in place of the call of a language model that the limits forbid."""
        try:
            with track_usage(self):
                return run_cancellable(self._over, function, *args, **kwargs)
        except CallsCancelled:
            self.check()
            raise

    def check(self) -> None:
        """Raise `BudgetSpent` if a limit is reached, `StudyError` if calls that were not counted hide it."""
        if self.usage.uncounted_calls and self._config.needs_counts:
            raise StudyError(
                "what this study spends or minimises is not known, since a language model was called without the "
                "meter: ask predictors with Program.ask, or leave limits and costs out"
            )
        if reason := self.reached():
            raise BudgetSpent(reason)


class Objective(Generic[P]):
    """The mean score of a program with the hyperparameters that a trial suggests, for `study.optimize`.

    It reports each question's score under the question's number. Pruners that compare trials question by question can
    therefore stop one: Optuna's `WilcoxonPruner`, or `knowgap.compiling.study.pruning.GainPruner`. Study, sampler,
    pruner and storage are the user's.

    Args:
        program: the program or DSPy module whose hyperparameters are tuned; it is not changed.
        devset: the dev questions, or a data set with a dev split.
        metric: its name, or a function, alone or by its name; of several, the first.
        config: which hyperparameters are searched, and in which ranges (`include`, `exclude` and `ranges`); `costs`,
            which are further objectives, to be minimized; and limits on what all trials together spend. A study of
            several objectives cannot prune.
        demos: demonstration sets to choose from; without them, demonstrations stay as they are.
        run: the language model, how many questions are asked at a time, and a callback.

    Raises:
        UnknownName: no such metric or hyperparameter.
        UsageError: there is no hyperparameter to tune, or no question.
        DataError: the metric scores passages that the index does not hold.

    >>> import dspy, knowgap, optuna
    >>> towns = [knowgap.Passage("orle", "Orle", "Orle is a town on the Isk.")]
    >>> program = knowgap.get_program("rag")(knowgap.build_index(towns, "rivers", engine="bm25"))
    >>> questions = [dspy.Example(id="1", question="Which river is Orle on?", answer="Isk").with_inputs("question")]
    >>> run = knowgap.Run(lm=knowgap.make_lm("extractive"))
    >>> objective = knowgap.Objective(program, questions, "f1", run=run)
    >>> study = optuna.create_study(direction="maximize")
    >>> study.optimize(objective, n_trials=2)
    >>> objective.program_of(study.best_trial).values()["top_k"] == study.best_trial.params["top_k"]
    True
    """

    def __init__(
        self,
        program: P,
        devset: Dataset | Sequence[dspy.Example],
        metric: Metrics = "f1",
        *,
        config: StudyConfig | None = None,
        demos: DemoSets | None = None,
        run: Run = Run(),
    ) -> None:
        self.program: P = as_program(program)
        self.config, self.demos, self.run = config or StudyConfig(), demos or DemoSets(), run
        self.space = SearchSpace(self.program, self.config, num_demo_sets=self.demos.sizes)
        questions = devset.questions("dev") if isinstance(devset, Dataset) else list(devset)
        self.questions = dict(zip(check_examples(questions, "devset"), questions, strict=True))
        [(self.metric, self._measure), *_] = named_metrics(metric).items()
        without_missing_gold(questions, self.program.retriever, self.metric)
        self._started = time.monotonic()

    def purse(self, study_trials: Sequence[FrozenTrial]) -> Purse:
        """A purse for a further trial of a study."""
        return Purse(self.config, self.config.prices, spent_in(study_trials) + self.demos.spent, self._started)

    def __call__(self, trial: Trial) -> float | tuple[float, ...]:
        """The mean score, and the mean of each cost if there are any.

        Raises:
            optuna.TrialPruned: the study's pruner stops the trial.
            LanguageModelUnreachable: a question was lost; with `catch=` the study goes on.
            BudgetSpent: a limit is reached.
        """
        trial.set_user_attr(SPENT, {})  # a trial that is run again inherits what the one before it spent
        program, purse = self.program_of(trial), self.purse(trial.study.get_trials(deepcopy=False))
        try:
            with dspy.context(lm=resolve_lm(self.run.lm, program)), without_history():
                scores, costs = purse.paying(self._ask, trial, program, purse)
        finally:
            trial.set_user_attr(SPENT, purse.usage.model_dump())
        means = mean_costs(costs, scores)
        trial.set_user_attr(COSTS, means)
        if len(scores) < len(self.questions):
            raise TrialPruned
        return (float(np.mean(scores)), *(cast("float", means[name]) for name in self.config.costs))

    def _ask(self, trial: Trial, program: P, purse: Purse) -> tuple[list[float], list[Cost]]:
        """Ask the questions in their order, all of them unless the study's pruner stops the trial."""
        scores, costs, threads = list[float](), list[Cost](), self.run.num_threads
        run, metrics = Run(dspy.settings.lm, threads), {self.metric: self._measure}
        stream: Any = run_questions(program, self.questions, metrics, run, ahead=2 * threads)
        with closing(stream):
            for record in stream:
                if record.lost:
                    raise LanguageModelUnreachable(f"trial {trial.number}: question {record.id}: {record.error}")
                scores.append(cast("float", record.scores[self.metric]))
                costs.append(record.cost)
                self._report(trial, scores)
                if len(scores) < len(self.questions):
                    purse.check()
                    if self._is_hopeless(trial, len(scores)):
                        break
        return scores, costs

    def _report(self, trial: Trial, scores: Sequence[float]) -> None:
        """Tell the pruner of the last question's score, and the user of the mean."""
        if not self.config.costs:
            trial.report(scores[-1], len(scores))
        if self.run.progress is not None:
            label, total = trial.user_attrs.get(LABEL, "sampled"), self.config.n_trials
            mean = f"{self.metric} {np.mean(scores):.3f} after {len(scores)} of {len(self.questions)}"
            self.run.progress(min(trial.number, total), total, f"trial {trial.number} ({label}): {mean}")

    def _is_hopeless(self, trial: Trial, asked: int) -> bool:
        """Whether the study's pruner stops the trial; it never stops the defaults, with which others are compared."""
        may_stop = not self.config.costs and trial.user_attrs.get(LABEL) != DEFAULT
        return may_stop and asked % _BLOCK == 0 and trial.should_prune()

    def program_of(self, trial: Trial | FrozenTrial) -> P:
        """A copy of the program with the hyperparameters and demonstrations of a trial, such as `study.best_trial`."""
        given: Any = FixedTrial(trial.params) if isinstance(trial, FrozenTrial) else trial
        values, chosen = self.space.suggest(given)
        return self.demos.apply(self.program.deepcopy().configure(**values), chosen)
