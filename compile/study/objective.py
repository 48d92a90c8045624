"""A program's score as an objective, for a study that a user creates with Optuna's own functions."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import dspy

from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.evaluation.costs import COSTS
from knowgap.compiling.evaluation.metrics import Metric, named_metrics
from knowgap.compiling.evaluation.metrics.missing_gold import check_gold
from knowgap.compiling.evaluation.provenance import Provenance
from knowgap.compiling.evaluation.results import Evaluation
from knowgap.compiling.evaluation.runner import QuestionRecord, Tally, check_examples, resolve_lm, run_questions
from knowgap.compiling.study.config import StudyConfig
from knowgap.compiling.study.space import SearchSpace
from knowgap.errors import UnknownName
from knowgap.lms.metering import without_history
from knowgap.programs.base import Program
from knowgap.programs.modules import as_program

if TYPE_CHECKING:
    from optuna import Trial
    from optuna.trial import FrozenTrial

P = TypeVar("P", bound=Program)

_LOG = logging.getLogger("knowgap")


class Objective(Generic[P]):
    """The mean score of a program with the hyperparameters that a trial suggests, for `study.optimize`.

    It asks the dev questions in blocks and reports the mean so far after each, so that the study's pruner can stop a
    trial. Study, sampler, pruner and storage are the user's. Demonstrations stay as they are.

    Args:
        program: the program or DSPy module whose hyperparameters are tuned; it is not changed.
        devset: the dev questions, or a data set with a dev split.
        metric: its name, or a function.
        costs: names of `knowgap ls costs`; each is a further objective, to be minimized. A study of several objectives
            cannot prune.
        config: which hyperparameters are searched, and in which ranges: its `include`, `exclude` and `ranges`.
        lm: the language model; default: the one that DSPy is configured with.
        num_threads: how many questions are asked at a time.
        block: how many questions are asked between two reports.

    Raises:
        UnknownName: no such metric, cost or hyperparameter.
        UsageError: there is no hyperparameter to tune, or no question.
        DataError: the metric scores passages that the index does not hold.

    >>> import dspy, knowgap, optuna
    >>> towns = [knowgap.Passage("orle", "Orle", "Orle is a town on the Isk.")]
    >>> program = knowgap.get_program("rag")(knowgap.build_index(towns, "rivers", engine="bm25"))
    >>> questions = [dspy.Example(id="1", question="Which river is Orle on?", answer="Isk").with_inputs("question")]
    >>> objective = knowgap.Objective(program, questions, "f1", lm=knowgap.make_lm("extractive"))
    >>> study = optuna.create_study(direction="maximize")
    >>> study.optimize(objective, n_trials=2)
    >>> objective.program_of(study.best_trial).values()["top_k"] == study.best_trial.params["top_k"]
    True
    """

    def __init__(
        self,
        program: P,
        devset: Dataset | Sequence[dspy.Example],
        metric: Metric | str = "f1",
        *,
        costs: Sequence[str] = (),
        config: StudyConfig | None = None,
        lm: dspy.BaseLM | None = None,
        num_threads: int = 4,
        block: int = 10,
    ) -> None:
        self._program: P = as_program(program)
        self._space = SearchSpace(self._program, config)
        questions = devset.questions("dev") if isinstance(devset, Dataset) else list(devset)
        ids = check_examples(questions, "devset")  # before they are divided: those without an id are named by position
        self._questions = [each.copy(id=id) for id, each in zip(ids, questions, strict=True)]
        self._metrics = named_metrics(metric)
        check_gold(questions, self._program.retriever, next(iter(self._metrics)))
        for name in costs:
            if name not in COSTS:
                raise UnknownName.among("cost", name, COSTS)
        self._costs, self._block = list(costs), max(1, block)
        self._lm, self._num_threads = lm, num_threads

    def __call__(self, trial: Trial) -> float | tuple[float, ...]:
        """The mean score, and the mean of each cost if there are any.

        Raises:
            optuna.TrialPruned: the study's pruner stops the trial.
        """
        from optuna import TrialPruned

        values, _ = self._space.suggest(trial)
        program = self._program.deepcopy().configure(**values)
        found = Evaluation(records=[], metrics=[*self._metrics], provenance=Provenance())
        for block in self._blocks(program):
            found.records += block
            if not self._costs:
                trial.report(found.mean(), len(found.records))
                if trial.should_prune():
                    raise TrialPruned
        if found.lost:
            failed = f"{len(found.lost)} of {len(found.records)} questions could not reach the language model"
            _LOG.warning("trial %s: %s and count as failed", trial.number, failed)
        if not self._costs:
            return found.mean()
        costs = [found.costs()[name] for name in self._costs]
        return (found.mean(), *(math.nan if cost is None else cost for cost in costs))

    def _blocks(self, program: P) -> Iterator[list[QuestionRecord]]:
        """Ask the questions in blocks, all as one run: a single question that fails does not end it."""
        model, threads = resolve_lm(self._lm, program), self._num_threads
        tally = Tally(len(self._questions), next(iter(self._metrics)), max(3, threads), None, model)
        with dspy.context(lm=model), without_history():
            for start in range(0, len(self._questions), self._block):
                block = {each.id: each for each in self._questions[start : start + self._block]}
                yield [*run_questions(program, block, self._metrics, num_threads=threads, tally=tally)]

    def program_of(self, trial: Trial | FrozenTrial) -> P:
        """A copy of the program with the hyperparameters of a trial, such as `study.best_trial`."""
        from optuna.trial import FixedTrial

        values, _ = self._space.suggest(FixedTrial(trial.params))  # pyright: ignore[reportArgumentType]
        return self._program.deepcopy().configure(**values)
