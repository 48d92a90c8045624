"""Decision thresholds (self-knowledge, relevance, comparison) by DSPy's ReAnchor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import dspy
from dspy.teleprompt.reanchor import ReAnchor
from pydantic import BaseModel

from knowgap.compiling.demonstrations.optimizers import reporting
from knowgap.compiling.evaluation.metrics import Metric, named_metrics
from knowgap.compiling.evaluation.quiet import quiet
from knowgap.compiling.evaluation.runner import (
    ask_again_if_lost,
    check_examples,
    fatal_cause,
    is_connection_error,
    resolve_lm,
)
from knowgap.compiling.evaluation.shared_cache import cache_results
from knowgap.errors import LanguageModelUnreachable, UsageError
from knowgap.lms.metering import without_history
from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Threshold
from knowgap.storage.progress import Progress

P = TypeVar("P", bound=Program)


class ThresholdCalibration(BaseModel, extra="forbid"):
    """Fitted decision thresholds.

    Attributes:
        thresholds: value by hyperparameter name; None if a plain yes or no does as well.
        before: mean score on the training questions with plain decisions.
        after: mean score with the thresholds.
    """

    thresholds: dict[str, float | None]
    before: float
    after: float

    def apply(self, program: P) -> P:
        """A copy of the program with these thresholds."""
        return cast("P", program.deepcopy().configure(**self.thresholds))


def calibrate_thresholds(
    program: Program,
    examples: Sequence[dspy.Example],
    *,
    metric: Metric | str,
    lm: dspy.BaseLM | None = None,
    num_threads: int = 4,
    progress: Progress | None = None,
) -> ThresholdCalibration:
    """Find, for every decision of a program, the probability from which a yes should count as one.

    DSPy's ReAnchor tries every threshold that makes a difference on the training questions. It keeps one only if it
    beats the plain decision on questions that it was not picked on. The language model's answers are cached.

    Args:
        program: one with `Threshold` hyperparameters; stays as it is. Those that have no effect beside its other
            settings are left alone.
        examples: training questions.
        metric: a function or the name of a metric.
        lm: the language model; None for the one DSPy is configured with.
        num_threads: questions at a time.
        progress: called after every question that is asked.

    Raises:
        UsageError: the program has no decision to calibrate.
        LanguageModelUnreachable: the language model is lost.
    """
    active = {
        name: declared
        for name, declared in program.hyperparameters().items()
        if isinstance(declared, Threshold) and declared.active(program.values())
    }
    if not active:
        raise UsageError(f"{program.name} makes no decision whose threshold could be calibrated")
    check_examples(examples)
    measure = next(iter(named_metrics(metric).values()))
    model: Any = resolve_lm(lm, program)
    errors: list[Exception] = []
    reanchor = ReAnchor(reporting(measure, progress), num_threads=num_threads, require_cache=False)
    asked = model.copy(cache=True) if hasattr(model, "cache") else model
    with quiet(), without_history(), dspy.context(lm=asked), cache_results(program) as cached:
        for threshold in active.values():
            threshold.apply(None, getattr(cached, threshold.predictor))
        try:
            fitted: Any = reanchor.compile(
                _DecidingProgram(cached, lambda error: errors.append(error)), trainset=list(examples)
            )
        except Exception as error:  # ReAnchor raises its own exception for whatever a question raised
            if not errors:
                raise
            if is_connection_error(errors[0]):
                raise LanguageModelUnreachable(f"the language model could not be reached: {errors[0]}") from error
            raise errors[0] from error
    report: Any = reanchor.report
    fields = {name: getattr(fitted.program, each.predictor).fields.get(each.field, {}) for name, each in active.items()}
    return ThresholdCalibration(
        thresholds={name: values.get("threshold") for name, values in fields.items()},
        before=report["train_score_before"],
        after=report["train_score"],
    )


class _DecidingProgram(dspy.Module):
    """The program as ReAnchor sees it: thresholds are set in its predictors, and a failed question has no answer.

    Args:
        program: its decisions follow the thresholds in its predictors, which ReAnchor sets, not its hyperparameters.
        report_error: called with an error for which no other question can be asked.
    """

    def __init__(self, program: Program, report_error: Callable[[Exception], None]):
        super().__init__()
        self.program, self.report_error = program, report_error
        program.apply_thresholds = False

    def forward(self, question: str) -> dspy.Prediction:
        """Answer a question."""
        try:
            return ask_again_if_lost(self.program, question)
        except Exception as error:  # a question on which the program fails scores nothing
            reason = error if is_connection_error(error) else fatal_cause(error)
            if reason is not None:
                self.report_error(reason)
                raise
            return dspy.Prediction(answer="", passages=[])
