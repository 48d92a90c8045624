"""DSPy's optimizers by name, and how each of them is run."""

from __future__ import annotations

import inspect
import itertools
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import dspy
from dspy.predict.knn import KNN
from dspy.predict.parameter import Parameter

from knowgap.compiling.demonstrations.feedback import feedback_metric
from knowgap.compiling.evaluation.delegating_program import DelegatingProgram
from knowgap.compiling.evaluation.failures import fatal_cause, is_connection_error
from knowgap.compiling.evaluation.metrics import Metric
from knowgap.compiling.evaluation.shared_cache import cache_results
from knowgap.errors import UsageError
from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Threshold
from knowgap.storage.progress import Progress

_LOG = logging.getLogger("knowgap")
_REASONING = ("reasoning", "explanation")
_RIGHT_RUNS = {"max_labeled_demos": 0, "metric_threshold": 1.0}
_CANDIDATES = 8
_SET_HERE = frozenset(
    ("self", "metric", "student", "trainset", "valset", "teacher", "seed", "num_threads", "prompt_model", "task_model")
) | {"reflection_lm", "eval_kwargs", "kwargs", "_kwargs", "requires_permission_to_run"}


@dataclass(frozen=True)
class OptimizerSpec:
    """One of DSPy's optimizers, as `run_optimizer` runs it.

    Args:
        class_name: the class in `dspy`.
        summary: one line that says what it does.
        compile: runs it.
        defaults: the default options that differ from DSPy's.
        needs_lm: whether it asks the language model to write instructions, which the embedded reader cannot.
        can_save: whether `save` can save the compiled program.
        options: the options it takes; None for all those of its constructor and its compile step.
        runs: how often it runs the program at most, from the numbers of training and validation questions; None if that
            depends on what a language model writes.
    """

    class_name: str
    summary: str
    compile: Callable[[OptimizerRun], Any]
    defaults: Mapping[str, Any]
    needs_lm: bool = False
    can_save: bool = True
    options: Sequence[str] | None = None
    runs: Callable[[int, int], int] | None = None

    def known_options(self) -> set[str]:
        """The options that the optimizer's constructor and its compile step take."""
        if self.options is not None:
            return {*self.options}
        steps = getattr(dspy, self.class_name).__init__, getattr(dspy, self.class_name).compile
        return {name for step in steps for name in inspect.signature(step).parameters} - _SET_HERE


@dataclass
class OptimizerRun:
    """The arguments with which an optimizer (a DSPy class) is run; see `run_optimizer`. `author` is the teacher."""

    optimizer: Any
    student: Program
    trainset: list[dspy.Example]
    valset: list[dspy.Example]
    metric: Metric
    author: Any
    seed: int
    num_threads: int
    options: dict[str, Any]

    def bootstrapping(self) -> dict[str, Any]:
        """The constructor's arguments for making demonstrations; `teacher_settings` is removed from the options."""
        teacher = {"lm": self.author, **self.options.pop("teacher_settings", {})}
        return {"metric": _one_call_each(self.metric, self.seed), "teacher_settings": teacher}

    def compile(self, init: Mapping[str, Any], **arguments: Any) -> Program:
        """Run the optimizer with arguments for its constructor and its compile step; options go to the one they fit."""
        constructor = inspect.signature(self.optimizer.__init__).parameters
        init_options = {name: value for name, value in self.options.items() if name in constructor}
        arguments |= {name: value for name, value in self.options.items() if name not in constructor}
        return self.optimizer(**init, **init_options).compile(self.student, **arguments)


def reporting(metric: Metric, progress: Progress | None) -> Metric:
    """Wrap a metric so that it reports every question to `progress`."""
    if progress is None:
        return metric
    asked = itertools.count(1)

    def measure(example: Any, prediction: Any, trace: Any = None) -> Any:
        score = metric(example, prediction, trace)
        progress(next(asked), 0, "questions asked")
        return score

    return measure


def _one_call_each(metric: Metric, seed: int) -> Metric:
    """Wrap a metric so that it keeps one call of each predictor in a trace, as DSPy's bootstrapping does later.

    DSPy draws the call by a hash of pickled objects, which differs from run to run. Here the same draw (half of the
    time the last call, else one before it) depends on the seed and the question alone.
    """

    def measure(example: Any, prediction: Any, trace: Any = None) -> Any:
        score = metric(example, prediction, trace)
        if trace:
            calls: dict[int, list[Any]] = {}
            for step in trace:
                calls.setdefault(id(step[0]), []).append(step)
            rng = random.Random(f"{seed} {example.question}")
            trace[:] = [
                rng.choice(steps[:-1]) if len(steps) > 1 and rng.random() < 0.5 else steps[-1]
                for steps in calls.values()
            ]
        return score

    return measure


def _labeled(run: OptimizerRun) -> Program:
    labelled = {name for name, predictor in run.student.named_predictors() if _labels(predictor, run.trainset[0])}
    if not labelled:
        raise UsageError(
            f"the optimizer labeled cannot be used: examples have the outputs of no predictor of {run.student.name}; "
            "use bootstrap, which gets them by running the program"
        )
    compiled = run.compile({}, trainset=run.trainset)
    for name, predictor in compiled.named_predictors():
        if name not in labelled:
            predictor.demos = []
    return compiled


def _labels(predictor: Any, example: dspy.Example) -> bool:
    """Whether an example fills all outputs of a predictor (reasoning aside) and one of its inputs."""
    given = {name for name in example if example[name] is not None}
    outputs = {name for name in predictor.signature.output_fields if name not in _REASONING}
    return bool(outputs) and outputs <= given and bool(given & {*predictor.signature.input_fields})


def _bootstrap(run: OptimizerRun) -> Program:
    return run.compile(run.bootstrapping(), trainset=run.trainset)


def _random_search(run: OptimizerRun) -> Program:
    init = {**run.bootstrapping(), "num_threads": run.num_threads}
    return run.compile(init, trainset=run.trainset, valset=run.valset)


class _NearestDemos(Parameter):
    """Asks a program with the demonstrations of the training questions nearest to the question.

    DSPy's KNNFewShot runs the program on the nearest examples for every question that is asked. Here each training
    question is run once, in advance, and the same demonstrations are shown.

    Args:
        demos: demonstrations by training question and predictor name.
        k: how many of the nearest training questions are used.
        vectorizer: maps texts to an array with one row per text; None for the embedded MiniLM sentence encoder.
    """

    def __init__(
        self, demos: Mapping[str, Mapping[str, Sequence[Any]]], k: int, vectorizer: Callable[[list[str]], Any] | None
    ):
        if vectorizer is None:
            from knowgap.retrieval.minilm import sentence_encoder

            vectorizer = sentence_encoder().encode
        examples = [dspy.Example(question=question).with_inputs("question") for question in demos]
        self.demos = demos
        self._knn = KNN(min(k, len(examples)), examples, vectorizer=vectorizer)  # pyright: ignore[reportArgumentType]

    def ask(self, program: Program, question: str) -> dspy.Prediction:
        """Ask a copy of the program with demonstrations, those of the nearest training question last."""
        nearest = [example.question for example in reversed(self._knn(question=question))]
        program = program.deepcopy()
        for name, predictor in program.named_predictors():
            predictor.demos = [demo for each in nearest for demo in self.demos[each].get(name, [])]
        return program(question=question)

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """All demonstrations, and `k`."""
        return {"k": self._knn.k, "demos": {question: dict(demos) for question, demos in self.demos.items()}}


def _knn(run: OptimizerRun) -> DelegatingProgram:
    k, vectorizer = run.options.pop("k"), run.options.pop("vectorizer", None)
    bootstrapping = run.bootstrapping() | {"max_bootstrapped_demos": 1, "max_labeled_demos": 0, "max_errors": 1}
    run = replace(run, optimizer=dspy.BootstrapFewShot)
    demos: dict[str, dict[str, list[Any]]] = {}
    failures: list[Exception] = []
    for example in run.trainset:
        try:
            compiled = run.compile(bootstrapping, trainset=[example])
        except Exception as error:  # a question on which the program fails gives no demonstration
            if is_connection_error(error) or fatal_cause(error) is not None:
                raise
            failures.append(error)
            continue
        remove_unused_demos(compiled)
        demos[example.question] = {name: p.demos for name, p in compiled.named_predictors() if p.demos}
    if failures:
        told = f"{len(failures)} of {len(run.trainset)} training questions, since it failed on them"
        _LOG.warning("%s gives no demonstration for %s: %s", run.student.name, told, failures[0])
    if not any(demos.values()):
        raise UsageError(f"the optimizer knn finds no training question that {run.student.name} answers correctly")
    nearest = _NearestDemos(demos, k, vectorizer)
    return DelegatingProgram(run.student, nearest.ask, nearest_demos=nearest)


def _mipro(run: OptimizerRun) -> Program:
    if run.options.get("num_candidates") is not None:
        run.options.setdefault("auto", None)
    run.options.setdefault("minibatch", len(run.valset) > run.options.get("minibatch_size", 35))
    models = {"prompt_model": run.author, "task_model": dspy.settings.lm}
    seed = run.seed + 1  # DSPy takes 0 for "not given"
    init = {**run.bootstrapping(), **models, "num_threads": run.num_threads, "seed": seed}
    return run.compile(init, trainset=run.trainset, valset=run.valset)


def _simba(run: OptimizerRun) -> Program:
    run.options.setdefault("bsize", min(32, len(run.trainset)))
    init = {"metric": run.metric, "prompt_model": run.author, "num_threads": run.num_threads}
    return run.compile(init, trainset=run.trainset, seed=run.seed)


def _gepa(run: OptimizerRun) -> Program:
    if not {"auto", "max_full_evals", "max_metric_calls"} & {*run.options}:
        run.options["auto"] = "light"
    init = {"metric": feedback_metric(run.metric), "reflection_lm": run.author, "seed": run.seed}
    return run.compile({**init, "num_threads": run.num_threads}, trainset=run.trainset, valset=run.valset)


def _copro(run: OptimizerRun) -> Program:
    evaluation = {"num_threads": run.num_threads, "display_progress": False, "display_table": False}
    init = {"metric": run.metric, "prompt_model": run.author}
    return run.compile(init, trainset=run.valset, eval_kwargs=evaluation)


class _DecidingProgram(dspy.Module):
    """The program for ReAnchor, which sets thresholds in its predictors; a failed question has an empty answer."""

    def __init__(self, program: Program, failed: Callable[[str, Exception], None]):
        super().__init__()
        self.program, self.failed = program, failed
        program.apply_thresholds = False  # the hyperparameters would undo what ReAnchor sets

    def forward(self, question: str) -> dspy.Prediction:
        """Answer a question."""
        try:
            return self.program(question=question)
        except Exception as error:  # a question on which the program fails scores nothing
            if is_connection_error(error) or fatal_cause(error) is not None:
                raise
            self.failed(question, error)
            return dspy.Prediction(answer="", passages=[])


def _reanchor(run: OptimizerRun) -> Program:
    from dspy.teleprompt.reanchor import ReAnchor

    declared, values = run.student.hyperparameters().items(), run.student.values()
    active = {name: d for name, d in declared if isinstance(d, Threshold) and d.active(values)}
    if not active:
        raise UsageError(f"{run.student.name} makes no decisions whose thresholds could be calibrated")
    lm: Any = dspy.settings.lm
    asked = lm.copy(cache=True) if hasattr(lm, "cache") else lm
    failures = dict[str, Exception]()

    def failed(question: str, error: Exception) -> None:  # a function, which copies of the program share
        failures[question] = error

    with cache_results(run.student) as cached, dspy.context(lm=asked):
        for threshold in active.values():
            threshold.apply(None, getattr(cached, threshold.predictor))
        optimizer = ReAnchor(run.metric, num_threads=run.num_threads, require_cache=False)
        fitted = optimizer.compile(_DecidingProgram(cached, failed), trainset=run.trainset).program
    if failures:
        why = "%d of %d training questions failed and count as wrong; the first failed with: %s"
        _LOG.warning(why, len(failures), len(run.trainset), next(iter(failures.values())))
    fields = {name: getattr(fitted, each.predictor).fields.get(each.field, {}) for name, each in active.items()}
    return run.student.configure(**{name: values.get("threshold") for name, values in fields.items()})


OPTIMIZERS: dict[str, OptimizerSpec] = {
    "labeled": OptimizerSpec(
        "LabeledFewShot", "shows examples as they are", _labeled, {"k": 4}, runs=lambda train, val: 0
    ),
    "bootstrap": OptimizerSpec(
        "BootstrapFewShot",
        "shows runs of the program that ended in the right answer",
        _bootstrap,
        {"max_bootstrapped_demos": 4, **_RIGHT_RUNS},
        runs=lambda train, val: train,
    ),
    "random_search": OptimizerSpec(
        "BootstrapFewShotWithRandomSearch",
        "bootstraps several sets and keeps the best on the valset",
        _random_search,
        {"max_bootstrapped_demos": 4, "num_candidate_programs": _CANDIDATES, **_RIGHT_RUNS},
        # Besides the candidates: without demonstrations, with labeled ones, and bootstrapped in the order of the data.
        runs=lambda train, val: (_CANDIDATES + 1) * train + (_CANDIDATES + 3) * val,
    ),
    "knn": OptimizerSpec(
        "KNNFewShot",
        "shows the runs of the training questions nearest to the one that is asked; cannot be saved",
        _knn,
        {"k": 3, "metric_threshold": 1.0},
        can_save=False,
        options=("k", "vectorizer", "metric_threshold", "max_rounds", "teacher_settings"),
        runs=lambda train, val: train,
    ),
    "mipro": OptimizerSpec(
        "MIPROv2", "words instructions and picks demonstrations", _mipro, {"max_labeled_demos": 0}, needs_lm=True
    ),
    "simba": OptimizerSpec("SIMBA", "adds rules and demonstrations where runs differ most", _simba, {}, needs_lm=True),
    "gepa": OptimizerSpec("GEPA", "rewrites instructions after reading what went wrong", _gepa, {}, needs_lm=True),
    "reanchor": OptimizerSpec(
        "ReAnchor",
        "sets the probabilities from which the program's decisions count as a yes",
        _reanchor,
        {},
        options=(),
        runs=lambda train, val: train,
    ),
    "copro": OptimizerSpec("COPRO", "tries instructions one predictor at a time", _copro, {}, needs_lm=True),
}
"""The optimizers by name."""


def remove_unused_demos(program: Program) -> None:
    """Reduce each demonstration to the fields of its predictor; remove those without an input and an output."""
    for predictor in program.predictors():
        signature = cast("Any", predictor).signature
        kept: list[Any] = []
        for demo in predictor.demos:
            fields = {name: demo[name] for name in signature.fields if name in demo}
            if {*fields} & {*signature.input_fields} and {*fields} & {*signature.output_fields}:
                kept.append(dspy.Example(**fields, **({"augmented": True} if demo.get("augmented") else {})))
        predictor.demos = kept
