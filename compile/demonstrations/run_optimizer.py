"""Give a program demonstrations or instructions by one of DSPy's optimizers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import dspy
from dspy.utils.callback import BaseCallback

from knowgap.compiling.demonstrations.optimizers import OPTIMIZERS, check_labels, reporting
from knowgap.compiling.evaluation.failures import fatal_cause, is_connection_error
from knowgap.compiling.evaluation.metrics import Metrics, named_metrics
from knowgap.compiling.evaluation.metrics.missing_gold import without_missing_gold
from knowgap.compiling.evaluation.quiet import quiet
from knowgap.compiling.evaluation.runner import check_examples, resolve_lm
from knowgap.compiling.run import Run
from knowgap.errors import KnowgapError, LanguageModelError, LanguageModelUnreachable, UnknownName, UsageError
from knowgap.lms.metering import without_history
from knowgap.lms.providers import EXTRACTIVE
from knowgap.programs.base import Program

P = TypeVar("P", bound=Program)


def run_optimizer(
    program: P,
    trainset: Sequence[dspy.Example],
    *,
    metric: Metrics,
    valset: Sequence[dspy.Example] | None = None,
    optimizer: str = "bootstrap",
    teacher_lm: dspy.BaseLM | None = None,
    run: Run = Run(),
    **options: Any,
) -> P:
    """Give a program the demonstrations, or the instructions, that an optimizer finds.

    Only runs with a perfect score become demonstrations (`metric_threshold=1.0`), and examples themselves are not shown
    beside them (`max_labeled_demos=0`), since they label the final answer alone and not the steps before it. Both are
    options. The optimizer `labeled` shows examples to the predictors whose outputs they label (reasoning aside).

    Candidates are compared on the valset; without one, on the trainset. Of several metrics, the first counts. The other
    arguments are those of `knowgap.compiling.compiler.compile`.

    Returns:
        A copy with demonstrations or instructions, and the hyperparameters of `program`.

    Raises:
        UnknownName: no such optimizer, metric or option.
        UsageError: no examples, or no predictor that examples could be shown to.
        LanguageModelError: the optimizer needs a language model that writes, and this one does not.
    """
    if optimizer not in OPTIMIZERS:
        raise UnknownName.among("optimizer", optimizer, ["study", "calibrate", *OPTIMIZERS])
    spec = OPTIMIZERS[optimizer]
    check_examples(trainset, "trainset")
    [(name, measure), *_] = named_metrics(metric).items()
    without_missing_gold([*trainset, *(valset or ())], program.retriever, name)
    model = resolve_lm(run.lm, program)
    author = teacher_lm or model
    if spec.writes and getattr(author, "model", "") == EXTRACTIVE:
        raise LanguageModelError(
            f"the optimizer {optimizer} needs a language model to write instructions; the embedded reader cannot"
        )
    labelled = check_labels(program, trainset[0]) if optimizer == "labeled" else []
    student = program.deepcopy()
    student._compiled = False
    student.concurrent = False  # demonstrations then come in the order of the algorithm, whichever call ends first
    examples = [each.with_inputs("question") for each in trainset]
    random.Random(run.seed).shuffle(examples)
    compared = [each.with_inputs("question") for each in valset or trainset]
    watch = _Watch()
    with quiet(), without_history(), dspy.context(lm=model, callbacks=[*dspy.settings.callbacks, watch]):
        try:
            asked = reporting(measure, run.progress)
            compiled = spec.run(student, examples, compared, asked, author, replace(run, lm=model), options)
        except KnowgapError:
            raise
        except (AssertionError, ValueError) as error:  # how DSPy's optimizers refuse their arguments
            raise watch.stop or UsageError(f"the optimizer {optimizer} cannot run: {error}") from error
        except Exception as error:
            watch.look(error)
            raise watch.stop or error from error
    if watch.stop is not None:
        raise watch.stop
    _clean(compiled, program)
    for name, predictor in compiled.named_predictors() if labelled else ():
        predictor.demos = predictor.demos if name in labelled else []
    return cast("P", compiled)


class _Watch(BaseCallback):
    """Notices errors of an unreachable model, a refused key or a full disk.

    DSPy's optimizers skip the questions with such errors, so that the demonstrations would depend on them.

    Attributes:
        stop: the first such error.
    """

    def __init__(self) -> None:
        self.stop: Exception | None = None
        self._programs: set[str] = set()

    def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Remember a call of a program; the program handles the errors of its predictors itself."""
        if isinstance(instance, Program):
            self._programs.add(call_id)

    def on_module_end(self, call_id: str, outputs: Any | None, exception: BaseException | None = None) -> None:
        """Look at the error of a program that was asked."""
        if call_id in self._programs and exception is not None:
            self.look(exception)

    def look(self, error: BaseException) -> None:
        """Keep an error that would prevent other questions as well."""
        if self.stop is None and is_connection_error(error):
            self.stop = LanguageModelUnreachable(f"the language model could not be reached: {error}")
        self.stop = self.stop or fatal_cause(error)


def _clean(compiled: Program, program: Program) -> None:
    """Remove what the optimizer left on the compiled program, and restore its language models."""
    for name in vars(compiled).keys() - vars(program).keys():
        delattr(compiled, name)  # candidates, logs and scores: whole programs, which every copy would contain
    compiled.concurrent = program.concurrent
    own = dict(program.named_predictors())
    for name, predictor in compiled.named_predictors():
        predictor.lm = own[name].lm
        predictor.demos = [kept for demo in predictor.demos if (kept := _of_predictor(predictor, demo)) is not None]


def _of_predictor(predictor: Any, demo: Any) -> dspy.Example | None:
    """A demonstration with the fields of its predictor alone; None if it lacks an input or an output."""
    signature = predictor.signature
    fields = {name: demo[name] for name in signature.fields if name in demo}
    if not ({*fields} & {*signature.input_fields} and {*fields} & {*signature.output_fields}):
        return None
    return dspy.Example(**fields, **({"augmented": True} if demo.get("augmented") else {}))
