"""Demonstrations and instructions by DSPy's optimizers, by name, under one interface."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import dspy
from dspy.utils import exceptions as lm_errors

from knowgap.compile.demonstrations.bootstrapping import one_call_each
from knowgap.compile.evaluation.evaluator import Progress, named_metrics
from knowgap.compile.evaluation.metrics import Metric
from knowgap.compile.evaluation.quiet import quiet
from knowgap.compile.evaluation.runner import check_examples, fatal_cause, is_connection_error, resolve_lm
from knowgap.errors import KnowgapError, LanguageModelError, LanguageModelUnreachable, UnknownName, UsageError
from knowgap.lms.providers import EXTRACTIVE
from knowgap.programs.base import Program

__all__ = ["OPTIMIZERS", "Optimizer", "compile_program", "labelled_fields"]

_REASONING = ("reasoning", "explanation")
_RIGHT_RUNS = {"max_labeled_demos": 0, "metric_threshold": 1.0}
_OURS = frozenset(
    ("self", "metric", "student", "trainset", "valset", "teacher", "seed", "num_threads", "prompt_model", "task_model")
) | {"reflection_lm", "eval_kwargs", "kwargs", "_kwargs", "requires_permission_to_run"}


@dataclass(frozen=True)
class Optimizer:
    """One of DSPy's optimizers, as `compile_program` runs it.

    Args:
        path: the class in `dspy`.
        summary: one line that says what it does.
        run: how it is run.
        defaults: of its options, where they are not DSPy's.
        needs_lm: whether it asks the language model to write instructions, which the embedded reader cannot.
        options: the options it takes; those of its constructor and its compile step where absent.
    """

    path: str
    summary: str
    run: Callable[[_Job], Program]
    defaults: Mapping[str, Any]
    needs_lm: bool = False
    options: tuple[str, ...] = ()


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

    Only runs with a perfect score become demonstrations (`metric_threshold=1.0`), and examples themselves are not
    shown beside them (`max_labeled_demos=0`): they label the final answer alone, not the steps on the way to it. Both
    are options. The optimizer `labeled` shows examples to the predictors of which they label every output (reasoning
    aside) and refuses a program that has none.

    Args:
        program: stays as it is.
        trainset: examples that may become demonstrations.
        valset: examples on which candidates are compared; the trainset where absent.
        metric: a function or the name of a metric.
        optimizer: a name from `OPTIMIZERS`.
        lm: the language model; the one DSPy is configured with where absent.
        teacher_lm: the model that runs the program to make demonstrations, and words instructions; `lm` where absent.
        seed: the order in which examples are tried, and the optimizer's own draws.
        num_threads: questions at a time while candidates are compared.
        progress: called after every question that is asked.
        **options: the optimizer's own options, by DSPy's names.

    Returns:
        A copy with demonstrations or instructions, and the hyperparameters of `program`.

    Raises:
        UnknownName: no such optimizer, metric or option.
        UsageError: no examples, or no predictor that examples could be shown to.
        LanguageModelError: the optimizer needs a language model that writes, and this one does not.
    """
    if optimizer not in OPTIMIZERS:
        raise UnknownName.among("optimizer", optimizer, OPTIMIZERS)
    chosen = OPTIMIZERS[optimizer]
    check_examples(trainset, "trainset")
    model = resolve_lm(lm, program)
    author = teacher_lm or model
    if chosen.needs_lm and getattr(author, "model", "") == EXTRACTIVE:
        raise LanguageModelError(
            f"the optimizer {optimizer} has a language model write instructions, which the embedded reader cannot: "
            "use a real one (lm=… or teacher_lm=…), or labeled, bootstrap, random_search or knn"
        )
    measure = next(iter(named_metrics(metric).values()))
    cls = getattr(dspy, chosen.path)
    settings = {**chosen.defaults, **_checked(optimizer, chosen, cls, options)}
    student = program.deepcopy()
    student._compiled = False
    student.concurrent = False  # demonstrations then come in the order of the algorithm, whichever call ends first
    examples = list(trainset)
    random.Random(seed).shuffle(examples)
    job = _Job(cls, student, examples, list(valset or trainset), measure, author, seed, num_threads, settings, progress)
    with quiet(), dspy.context(lm=model):
        try:
            compiled = chosen.run(job)
        except (AssertionError, ValueError) as error:  # how DSPy's optimizers refuse their arguments
            if isinstance(error, KnowgapError):
                raise
            raise UsageError(f"the optimizer {optimizer} refuses: {error}") from error
        except lm_errors.LMError as error:
            if is_connection_error(error):
                raise LanguageModelUnreachable(f"the language model could not be reached: {error}") from error
            raise fatal_cause(error) or error from error
    return _handed_over(program, compiled, keep=("forward",) if optimizer == "knn" else ())


@dataclass
class _Job:
    cls: Any
    student: Program
    trainset: list[dspy.Example]
    valset: list[dspy.Example]
    metric: Metric
    author: Any
    seed: int
    num_threads: int
    options: dict[str, Any]
    progress: Progress | None

    @property
    def measure(self) -> Metric:
        """The metric, which reports every question."""
        if self.progress is None:
            return self.metric
        progress, metric, asked = self.progress, self.metric, [0]

        def counting(example: Any, prediction: Any, trace: Any = None) -> Any:
            score = metric(example, prediction, trace)
            asked[0] += 1
            progress(asked[0], 0, "questions asked")
            return score

        return counting

    @property
    def measure_runs(self) -> Metric:
        """The metric of runs that become demonstrations."""
        return one_call_each(self.measure, self.seed)

    def split_options(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Options of the constructor, and those of the compile step alone."""
        constructor = inspect.signature(self.cls.__init__).parameters
        first = {name: value for name, value in self.options.items() if name in constructor}
        return first, {name: value for name, value in self.options.items() if name not in first}

    def teacher(self, options: dict[str, Any]) -> dict[str, Any]:
        """DSPy's settings while demonstrations are made; those given among the options are taken out of them."""
        return {"lm": self.author, **options.pop("teacher_settings", {})}


def _checked(name: str, optimizer: Optimizer, cls: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options by name, refused where the optimizer's constructor and compile step know none of that name."""
    theirs = {*inspect.signature(cls.__init__).parameters, *inspect.signature(cls.compile).parameters}
    known = {*optimizer.options} or theirs - _OURS
    for option in options:
        if option not in known:
            raise UnknownName.among(f"option of the optimizer {name}", option, known)
    return dict(options)


def _labeled(job: _Job) -> Program:
    shown = {name for name, predictor in job.student.named_predictors() if labelled_fields(predictor, job.trainset[0])}
    if not shown:
        raise UsageError(
            f"the optimizer labeled finds no predictor of {job.student.name} whose outputs the examples label: "
            "use bootstrap, which labels them by running the program"
        )
    first, then = job.split_options()
    compiled = job.cls(**first).compile(job.student, trainset=job.trainset, **then)
    for name, predictor in compiled.named_predictors():
        if name not in shown:
            predictor.demos = []
    return compiled


def _bootstrap(job: _Job) -> Program:
    first, then = job.split_options()
    optimizer = job.cls(metric=job.measure_runs, teacher_settings=job.teacher(first), **first)
    return optimizer.compile(job.student, trainset=job.trainset, **then)


def _random_search(job: _Job) -> Program:
    first, then = job.split_options()
    optimizer = job.cls(
        metric=job.measure_runs, teacher_settings=job.teacher(first), num_threads=job.num_threads, **first
    )
    return optimizer.compile(job.student, trainset=job.trainset, valset=job.valset, **then)


def _knn(job: _Job) -> Program:
    from knowgap.compile.demonstrations.knn_demos import NearestDemonstrations, embedded_vectorizer

    options = dict(job.options)
    k, vectorizer = options.pop("k"), options.pop("vectorizer", None) or embedded_vectorizer()
    settings = job.teacher(options)
    table: dict[str, dict[str, list[Any]]] = {}
    for example in job.trainset:
        one = dspy.BootstrapFewShot(
            metric=job.measure_runs,
            teacher_settings=settings,
            max_bootstrapped_demos=1,
            max_labeled_demos=0,
            max_errors=1,
            **options,
        )
        try:
            ran = one.compile(job.student, trainset=[example])
        except Exception as error:  # a question that the program fails on makes no demonstration; all else is raised
            if is_connection_error(error) or fatal_cause(error) is not None:
                raise
            continue
        _tidy(ran)
        table[example.question] = {name: p.demos for name, p in ran.named_predictors() if p.demos}
    if not any(table.values()):
        raise UsageError(f"the optimizer knn finds no training question that {job.student.name} answers rightly")
    return NearestDemonstrations(table, k, vectorizer).bind(job.student)


def _mipro(job: _Job) -> Program:
    first, then = job.split_options()
    if first.get("num_candidates") is not None:
        first.setdefault("auto", None)
    then.setdefault("minibatch", len(job.valset) > then.get("minibatch_size", 35))
    optimizer = job.cls(
        metric=job.measure_runs,
        prompt_model=job.author,
        task_model=dspy.settings.lm,
        teacher_settings=job.teacher(first),
        num_threads=job.num_threads,
        seed=job.seed + 1,  # DSPy takes 0 for "not given"
        **first,
    )
    return optimizer.compile(job.student, trainset=job.trainset, valset=job.valset, **then)


def _simba(job: _Job) -> Program:
    first, then = job.split_options()
    first.setdefault("bsize", min(32, len(job.trainset)))
    optimizer = job.cls(metric=job.measure, prompt_model=job.author, num_threads=job.num_threads, **first)
    return optimizer.compile(job.student, trainset=job.trainset, seed=job.seed, **then)


def _gepa(job: _Job) -> Program:
    from knowgap.compile.demonstrations.feedback import feedback_metric

    first, then = job.split_options()
    if not {"auto", "max_full_evals", "max_metric_calls"} & {*first}:
        first["auto"] = "light"
    measure = feedback_metric(job.measure)
    optimizer = job.cls(metric=measure, reflection_lm=job.author, num_threads=job.num_threads, seed=job.seed, **first)
    return optimizer.compile(job.student, trainset=job.trainset, valset=job.valset, **then)


def _copro(job: _Job) -> Program:
    first, then = job.split_options()
    optimizer = job.cls(metric=job.measure, prompt_model=job.author, **first)
    how = {"num_threads": job.num_threads, "display_progress": False, "display_table": False}
    return optimizer.compile(job.student, trainset=job.valset, eval_kwargs=how, **then)


OPTIMIZERS: dict[str, Optimizer] = {
    "labeled": Optimizer("LabeledFewShot", "shows examples as they are", _labeled, {"k": 4}),
    "bootstrap": Optimizer(
        "BootstrapFewShot",
        "shows runs of the program that ended in the right answer",
        _bootstrap,
        {"max_bootstrapped_demos": 4, **_RIGHT_RUNS},
    ),
    "random_search": Optimizer(
        "BootstrapFewShotWithRandomSearch",
        "bootstraps several sets and keeps the best on the valset",
        _random_search,
        {"max_bootstrapped_demos": 4, "num_candidate_programs": 8, **_RIGHT_RUNS},
    ),
    "knn": Optimizer(
        "KNNFewShot",
        "shows the runs of the training questions nearest to the one that is asked; cannot be saved",
        _knn,
        {"k": 3, "metric_threshold": 1.0},
        options=("k", "vectorizer", "metric_threshold", "max_rounds", "teacher_settings"),
    ),
    "mipro": Optimizer(
        "MIPROv2", "words instructions and picks demonstrations", _mipro, {"max_labeled_demos": 0}, needs_lm=True
    ),
    "simba": Optimizer("SIMBA", "adds rules and demonstrations where runs differ most", _simba, {}, needs_lm=True),
    "gepa": Optimizer("GEPA", "rewrites instructions after reading what went wrong", _gepa, {}, needs_lm=True),
    "copro": Optimizer("COPRO", "tries instructions one predictor at a time", _copro, {}, needs_lm=True),
}
"""The optimizers by name."""


def labelled_fields(predictor: Any, example: dspy.Example) -> list[str]:
    """The fields of a predictor that an example fills, or none where it leaves an output open (reasoning aside)."""
    signature = predictor.signature
    given = {name for name in example if example[name] is not None}
    wanted = {name for name in signature.output_fields if name not in _REASONING}
    if not wanted or not wanted <= given or not given & {*signature.input_fields}:
        return []
    return [name for name in signature.fields if name in given]


def _handed_over(program: Program, compiled: Program, keep: tuple[str, ...]) -> Program:
    """The compiled program without what the optimizer left on it, and with the language models it came with."""
    for name in [name for name in vars(compiled) if name not in vars(program) and name not in keep]:
        delattr(compiled, name)  # candidates, logs and scores: whole programs, which every copy would drag along
    compiled.concurrent = program.concurrent
    own = dict(program.named_predictors())
    for name, predictor in compiled.named_predictors():
        predictor.lm = own[name].lm
    _tidy(compiled)
    return compiled


def _tidy(program: Program) -> None:
    """Keep of every demonstration what its predictor shows, and leave out those of which it shows nothing."""
    for predictor in program.predictors():
        signature = cast("Any", predictor).signature
        kept: list[Any] = []
        for demo in predictor.demos:
            fields = {name: demo[name] for name in signature.fields if name in demo}
            if {*fields} & {*signature.input_fields} and {*fields} & {*signature.output_fields}:
                kept.append(dspy.Example(**fields, **({"augmented": True} if demo.get("augmented") else {})))
        predictor.demos = kept
