"""Give a program demonstrations or instructions by one of DSPy's optimizers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, cast

import dspy
from dspy.utils import exceptions as lm_errors

from knowgap.compile.demonstrations.optimizers import OPTIMIZERS, OptimizerRun, remove_unused_demos, reporting
from knowgap.compile.evaluation.delegating_program import DelegatingProgram
from knowgap.compile.evaluation.metrics import Metric, named_metrics
from knowgap.compile.evaluation.quiet import quiet
from knowgap.compile.evaluation.runner import check_examples, fatal_cause, is_connection_error, resolve_lm
from knowgap.errors import KnowgapError, LanguageModelError, LanguageModelUnreachable, UnknownName, UsageError
from knowgap.lms.providers import EXTRACTIVE
from knowgap.programs.base import Program
from knowgap.programs.trace.usage import without_history
from knowgap.retrieval.index.build import Progress

__all__ = ["compile_program"]


def compile_program(
    program: Program,
    trainset: Sequence[dspy.Example],
    *,
    valset: Sequence[dspy.Example] | None = None,
    metric: Metric | str,
    optimizer: str = "bootstrap",
    lm: dspy.BaseLM | None = None,
    teacher_lm: dspy.BaseLM | None = None,
    seed: int = 0,
    num_threads: int = 4,
    progress: Progress | None = None,
    **options: Any,
) -> Program:
    """Give a program the demonstrations, or the instructions, that an optimizer finds.

    Only runs with a perfect score become demonstrations (`metric_threshold=1.0`), and examples themselves are not shown
    beside them (`max_labeled_demos=0`), since they label the final answer alone and not the steps before it. Both are
    options. The optimizer `labeled` shows examples to the predictors whose outputs they label (reasoning aside); it
    refuses a program without such a predictor.

    Args:
        program: stays as it is.
        trainset: examples that may become demonstrations.
        valset: examples on which candidates are compared; None for the trainset.
        metric: a function or the name of a metric.
        optimizer: a name from `OPTIMIZERS`.
        lm: the language model; None for the one DSPy is configured with.
        teacher_lm: the model that runs the program to make demonstrations, and writes instructions; None for `lm`.
        seed: of the order in which examples are tried, and of the optimizer's draws.
        num_threads: questions at a time while candidates are compared.
        progress: called after every question that is asked.
        **options: the optimizer's options, by DSPy's names.

    Returns:
        A copy with demonstrations or instructions, and the hyperparameters of `program`.

    Raises:
        UnknownName: no such optimizer, metric or option.
        UsageError: no examples, or no predictor that examples could be shown to.
        LanguageModelError: the optimizer needs a language model that writes, and this one does not.
    """
    if optimizer not in OPTIMIZERS:
        raise UnknownName.among("optimizer", optimizer, OPTIMIZERS)
    spec = OPTIMIZERS[optimizer]
    for option in options:
        if option not in spec.known_options():
            raise UnknownName.among(f"option of the optimizer {optimizer}", option, spec.known_options())
    check_examples(trainset, "trainset")
    model = resolve_lm(lm, program)
    author = teacher_lm or model
    if spec.needs_lm and getattr(author, "model", "") == EXTRACTIVE:
        raise LanguageModelError(
            f"the optimizer {optimizer} has a language model write instructions, which the embedded reader cannot: "
            "use a real one (lm=… or teacher_lm=…), or labeled, bootstrap, random_search or knn"
        )
    student = program.deepcopy()
    student._compiled = False
    student.concurrent = False  # demonstrations then come in the order of the algorithm, whichever call ends first
    examples = list(trainset)
    random.Random(seed).shuffle(examples)
    run = OptimizerRun(
        optimizer=getattr(dspy, spec.class_name),
        student=student,
        trainset=examples,
        valset=list(valset or trainset),
        metric=reporting(next(iter(named_metrics(metric).values())), progress),
        author=author,
        seed=seed,
        num_threads=num_threads,
        options={**spec.defaults, **options},
    )
    with quiet(), without_history(), dspy.context(lm=model):
        try:
            compiled = spec.compile(run)
        except (AssertionError, ValueError) as error:  # how DSPy's optimizers refuse their arguments
            if isinstance(error, KnowgapError):
                raise
            raise UsageError(f"the optimizer {optimizer} refuses: {error}") from error
        except lm_errors.LMError as error:
            if is_connection_error(error):
                raise LanguageModelUnreachable(f"the language model could not be reached: {error}") from error
            raise fatal_cause(error) or error from error
    _clean(compiled.program if isinstance(compiled, DelegatingProgram) else compiled, program)
    return cast("Program", compiled)


def _clean(compiled: Program, program: Program) -> None:
    """Remove what the optimizer left on the compiled program, and restore its language models."""
    for name in vars(compiled).keys() - vars(program).keys():
        delattr(compiled, name)  # candidates, logs and scores: whole programs, which every copy would contain
    compiled.concurrent = program.concurrent
    own = dict(program.named_predictors())
    for name, predictor in compiled.named_predictors():
        predictor.lm = own[name].lm
    remove_unused_demos(compiled)
