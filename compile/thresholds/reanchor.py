"""Decision thresholds (self-knowledge, relevance, comparison) by DSPy's ReAnchor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

import dspy
from dspy.teleprompt.reanchor import ReAnchor
from pydantic import BaseModel, ConfigDict

from knowgap.compile.evaluation.evaluator import Progress, named_metrics
from knowgap.compile.evaluation.metrics import Metric
from knowgap.compile.evaluation.quiet import quiet
from knowgap.compile.evaluation.runner import check_examples, fatal_cause, is_connection_error, resolve_lm
from knowgap.compile.evaluation.shared_cache import share
from knowgap.errors import LanguageModelUnreachable, UsageError
from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Threshold

__all__ = ["ThresholdCalibration", "calibrate_thresholds"]

P = TypeVar("P", bound=Program)


class ThresholdCalibration(BaseModel):
    """Fitted decision thresholds.

    Attributes:
        thresholds: value by hyperparameter name; None where a plain yes or no does as well.
        before: mean score on the training questions with plain decisions.
        after: mean score with the thresholds.
        report: ReAnchor's own account, one row for each decision.
    """

    model_config = ConfigDict(extra="forbid")

    thresholds: dict[str, float | None]
    before: float
    after: float
    report: list[dict[str, Any]]

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

    Every candidate that the training questions tell apart is tried; a threshold is kept only where it beats the plain
    decision on questions that it was not picked on (DSPy's ReAnchor). Answers of the language model are used again.

    Args:
        program: one with `Threshold` hyperparameters; stays as it is. Those that have no effect beside its other
            settings are left alone.
        examples: training questions.
        metric: a function or the name of a metric.
        lm: the language model; the one DSPy is configured with where absent.
        num_threads: questions at a time.
        progress: called after every question that is asked.

    Raises:
        UsageError: the program has no decision to calibrate.
        LanguageModelUnreachable: the language model is lost.
    """
    values = program.values()
    declared = {
        name: declaration
        for name, declaration in program.hyperparameters().items()
        if isinstance(declaration, Threshold) and declaration.active(values)
    }
    if not declared:
        raise UsageError(f"{program.name} makes no decision whose threshold could be calibrated")
    check_examples(examples)
    measure = next(iter(named_metrics(metric).values()))
    model: Any = resolve_lm(lm, program)
    shared, close = share(program)
    problems: list[Exception] = []
    student = _undecided(shared.configure(**dict.fromkeys(declared)), problems)
    asked = [0]

    def counting(example: Any, prediction: Any) -> float:
        asked[0] += 1
        if progress is not None:
            progress(asked[0], 0, "questions asked")
        return float(measure(example, prediction))

    reanchor = ReAnchor(counting, num_threads=num_threads, require_cache=False)
    try:
        with quiet(), dspy.context(lm=model.copy(cache=True) if hasattr(model, "cache") else model):
            fitted: Any = reanchor.compile(student, trainset=list(examples))
    except Exception as error:  # ReAnchor wraps whatever a question raised in an exception of no type
        if not problems:
            raise
        if is_connection_error(problems[0]):
            raise LanguageModelUnreachable(f"the language model could not be reached: {problems[0]}") from error
        raise problems[0] from error
    finally:
        close()
    thresholds = {
        name: getattr(fitted, threshold.predictor).fields.get(threshold.field, {}).get("threshold")
        for name, threshold in declared.items()
    }
    report: Any = reanchor.report
    rows = [{key: row[key] for key in row if isinstance(row[key], (str, int, float, dict))} for row in report["fitted"]]
    return ThresholdCalibration(
        thresholds=thresholds, before=report["train_score_before"], after=report["train_score"], report=rows
    )


def _undecided(program: P, problems: list[Exception]) -> P:
    """The program with its decisions in ReAnchor's hands, and with failed questions as empty answers."""
    cls: Any = type(program)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return cls.__call__(self, *args, **kwargs)
        except Exception as error:  # a question that the program fails on scores nothing; all else ends the fitting
            reason = error if is_connection_error(error) else fatal_cause(error)
            if reason is not None:
                problems.append(reason)
                raise
            return dspy.Prediction(answer="", passages=[])

    program.apply_thresholds = False
    program.__class__ = type(cls.__name__, (cls,), {"__call__": call})
    return program
