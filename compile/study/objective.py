"""A program's score as an objective, for `study.optimize`: of the studies of `compile`, and of a user's own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any, Generic, TypeVar

import dspy
import numpy as np
from optuna import Trial, TrialPruned
from optuna.trial import FixedTrial, FrozenTrial, TrialState

from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.demonstrations.demo_sets import DemoSets
from knowgap.compiling.evaluation.metrics import Metrics, named_metrics
from knowgap.compiling.evaluation.metrics.retrieval import without_missing_gold
from knowgap.compiling.evaluation.provenance import Provenance, lm_name
from knowgap.compiling.evaluation.results import Evaluation
from knowgap.compiling.evaluation.runner import QuestionRecord, check_examples, resolve_lm, run_questions
from knowgap.compiling.run import Run
from knowgap.compiling.study.config import StudyConfig
from knowgap.compiling.study.space import SearchSpace
from knowgap.errors import LanguageModelUnreachable
from knowgap.lms.metering import Usage, UsageTracker, token_prices, track_usage, without_history
from knowgap.programs.base import Program
from knowgap.programs.modules import as_program

P = TypeVar("P", bound=Program)

LABEL, COSTS, SPENT = "label", "costs", "spent"
"""Attributes of a trial: why it is tried, its mean costs per question, and what it has spent."""

DEFAULT = "default"
"""The label of the trial with the defaults and no demonstrations."""

_BLOCK = 5  # questions between two decisions whether to stop a trial


def spent_in(trials: Sequence[FrozenTrial]) -> Usage:
    """What trials have spent together, those included that failed."""
    started = [trial for trial in trials if trial.state != TrialState.WAITING]
    return sum((Usage(**trial.user_attrs.get(SPENT, {})) for trial in started), Usage())


class Objective(Generic[P]):
    """The mean score of a program with the hyperparameters that a trial suggests, for `study.optimize`.

    It reports each question's score under the question's number, unless the study has several objectives, so that
    Optuna's `WilcoxonPruner` can stop a trial. The trial's `user_attrs` hold the mean `costs` of a question. Study,
    sampler, pruner and storage are the user's.

    Args:
        program: the program or DSPy module whose hyperparameters are tuned; it is not changed.
        devset: the dev questions, or a data set with a dev split.
        metric: its name, or a function, alone or by its name; of several, the first.
        config: which hyperparameters are searched, and in which ranges (`include` and `ranges`).
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
        config: StudyConfig = StudyConfig(),
        demos: DemoSets | None = None,
        run: Run = Run(),
    ) -> None:
        self.program: P = as_program(program)
        self.config, self.demos, self.run = config, demos or DemoSets(), run
        choices = {name: len(sets) for name, sets in self.demos.sets.items()}
        self.space = SearchSpace(self.program, self.config, num_demo_sets=choices)
        questions = devset.questions("dev") if isinstance(devset, Dataset) else list(devset)
        self.questions = dict(zip(check_examples(questions, "devset"), questions, strict=True))
        [(self.metric, self._measure), *_] = named_metrics(metric).items()
        without_missing_gold(questions, self.program.retriever, self.metric)

    def __call__(self, trial: Trial) -> float:
        """The mean score.

        Raises:
            optuna.TrialPruned: the study's pruner stops the trial.
            LanguageModelUnreachable: a question was lost; with `catch=` the study goes on.
        """
        trial.set_user_attr(SPENT, {})  # a trial that is run again inherits what the one before it spent
        program = self.program_of(trial)
        model, records = resolve_lm(self.run.lm, program), list[QuestionRecord]()
        label, total = trial.user_attrs.get(LABEL, "sampled"), self.config.n_trials
        compared, every = len(trial.study.directions) == 1, len(self.questions)

        def tell(asked: int, _: int, mean: str) -> None:
            if self.run.progress is not None:
                told = f"trial {trial.number} ({label}): {mean} after {asked} of {every}"
                self.run.progress(min(trial.number, total), total, told)

        run, ahead = Run(model, self.run.num_threads, progress=tell), 2 * self.run.num_threads
        stream: Any = run_questions(program, self.questions, {self.metric: self._measure}, run, ahead=ahead)
        tracker = UsageTracker(token_prices(lm_name(model)))
        try:
            with dspy.context(lm=model), without_history(), track_usage(tracker), closing(stream):
                for asked, record in enumerate(stream, start=1):
                    if record.lost:
                        raise LanguageModelUnreachable(f"trial {trial.number}: question {record.id}: {record.error}")
                    records.append(record)
                    if compared:
                        trial.report(record.scores[self.metric], asked)
                    # The defaults are never stopped, since others are compared with them.
                    may_stop = compared and label != DEFAULT and asked < every and asked % _BLOCK == 0
                    if may_stop and trial.should_prune():
                        raise TrialPruned
        finally:
            trial.set_user_attr(SPENT, tracker.usage.model_dump())
            if records:
                asked_so_far = Evaluation(records=records, metrics=[self.metric], provenance=Provenance())
                trial.set_user_attr(COSTS, asked_so_far.costs())
        return float(np.mean([record.scores[self.metric] or 0.0 for record in records]))

    def program_of(self, trial: Trial | FrozenTrial) -> P:
        """A copy of the program with the hyperparameters and demonstrations of a trial, such as `study.best_trial`."""
        given: Any = FixedTrial(trial.params) if isinstance(trial, FrozenTrial) else trial
        values, chosen = self.space.suggest(given)
        return self.demos.apply(self.program.deepcopy().configure(**values), chosen)
