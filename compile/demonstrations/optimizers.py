"""Give a program demonstrations or instructions by one of DSPy's optimizers."""

from __future__ import annotations

import inspect
import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import dspy
from dspy.utils.callback import BaseCallback

from knowgap.compiling.evaluation.metrics import Metric, Metrics, named_metrics
from knowgap.compiling.evaluation.metrics.answers import reference_answers
from knowgap.compiling.evaluation.metrics.retrieval import without_missing_gold
from knowgap.compiling.evaluation.quiet import quiet
from knowgap.compiling.evaluation.runner import check_examples, fatal_cause, is_connection_error, resolve_lm
from knowgap.compiling.run import Run
from knowgap.errors import LanguageModelUnreachable, UnknownName, UsageError
from knowgap.lms.metering import without_history
from knowgap.programs.base import Program
from knowgap.programs.trace.evidence import evidence_fates
from knowgap.programs.trace.steps import Stopped
from knowgap.storage.progress import Progress

P = TypeVar("P", bound=Program)

_REASONING = ("reasoning", "explanation")
_RIGHT_RUNS = {"max_bootstrapped_demos": 4, "max_labeled_demos": 0, "metric_threshold": 1.0}
_OPTIONS_OF_NOBODY = frozenset(("self", "student", "teacher", "kwargs", "eval_kwargs", "requires_permission_to_run"))


class Optimizer(NamedTuple):
    """One of DSPy's optimizers: the class in `dspy`, what it does, and the default options that differ from DSPy's."""

    class_name: str
    summary: str
    defaults: dict[str, Any]


OPTIMIZERS: dict[str, Optimizer] = {
    "labeled": Optimizer("LabeledFewShot", "shows examples as they are", {"k": 4}),
    "bootstrap": Optimizer("BootstrapFewShot", "shows runs of the program that ended in the right answer", _RIGHT_RUNS),
    "random_search": Optimizer(
        "BootstrapFewShotWithRandomSearch",
        "bootstraps several sets and keeps the best on the valset",
        {"num_candidate_programs": 8, **_RIGHT_RUNS},
    ),
    "mipro": Optimizer("MIPROv2", "words instructions and picks demonstrations", {"max_labeled_demos": 0}),
    "gepa": Optimizer("GEPA", "rewrites instructions after reading what went wrong", {}),
}
"""The optimizers by name."""


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
        UnknownName: no such metric or option.
        UsageError: no examples, or arguments that DSPy's optimizer refuses.
        LanguageModelError: the optimizer needs a language model that writes, and this one does not.
    """
    check_examples(trainset, "trainset")
    [(name, measure), *_] = named_metrics(metric).items()
    without_missing_gold([*trainset, *(valset or ())], program.retriever, name)
    model = resolve_lm(run.lm, program)
    author = teacher_lm or model
    student = program.deepcopy()
    student._compiled = False
    student.concurrent = False  # demonstrations then come in the order of the algorithm, whichever call ends first
    examples = [each.with_inputs("question") for each in trainset]
    random.Random(run.seed).shuffle(examples)
    given = {
        "trainset": examples,
        "valset": [each.with_inputs("question") for each in valset or trainset],
        "metric": _observed(measure, run.seed, run.progress),
        "teacher_settings": {"lm": author},
        **dict.fromkeys(("prompt_model", "reflection_lm"), author),
        "task_model": model,
        "num_threads": run.num_threads,
        "seed": run.seed + 1,  # MIPROv2 takes 0 for "not given"
    }
    watch, compiled = _Watch(), None
    with quiet(), without_history(), dspy.context(lm=model, callbacks=[*dspy.settings.callbacks, watch]):
        try:
            compiled = _compile(student, optimizer, given, options)
        except Exception as error:
            watch.on_module_end("", None, error)
            if watch.stop is None and isinstance(error, (AssertionError, TypeError, ValueError)):  # how DSPy refuses
                raise UsageError(f"{optimizer} cannot run with {options or 'its defaults'}: {error}") from error
            if watch.stop is None:
                raise
    if watch.stop is not None:
        raise watch.stop
    found, predictors = program.deepcopy(), dict(cast("P", compiled).named_predictors())
    for name, predictor in found.named_predictors():  # the optimizer leaves whole programs on what it has compiled
        optimized: Any = predictors[name]
        demos = [_of_predictor(optimized, demo) for demo in optimized.demos]
        predictor.signature, predictor.demos = optimized.signature, [demo for demo in demos if demo is not None]
    return found


def _compile(student: Program, optimizer: str, given: dict[str, Any], options: dict[str, Any]) -> Program:
    """Make DSPy's optimizer and run it, each with those of the arguments that it takes.

    Raises:
        UnknownName: an option that neither the class's constructor nor its compile step takes.
    """
    class_name, _, defaults = OPTIMIZERS[optimizer]
    kind = getattr(dspy, class_name)
    constructor, step = (inspect.signature(each).parameters for each in (kind.__init__, kind.compile))
    known = {*constructor, *step} - {*given} - _OPTIONS_OF_NOBODY
    for option in options:
        if option not in known:
            raise UnknownName.among(f"option of {class_name}", option, known)
    given = {**given, **defaults}
    if optimizer == "mipro":
        given["minibatch"] = len(given["valset"]) > options.get("minibatch_size", 35)
        given |= {} if options.get("num_candidates") is None else {"auto": None}
    if optimizer == "gepa":
        given["metric"] = feedback_metric(given["metric"])
        given |= {} if {"auto", "max_full_evals", "max_metric_calls"} & {*options} else {"auto": "light"}
    given |= options
    made = kind(**{name: value for name, value in given.items() if name in constructor})
    return made.compile(student, **{n: v for n, v in given.items() if n in step and n not in constructor})


def _observed(metric: Metric, seed: int, progress: Progress | None) -> Metric:
    """A metric that reports every question, and keeps one call of each predictor in a trace.

    DSPy's bootstrapping does so later, by a hash of pickled objects, which differs from run to run. Here the same draw
    (half of the time the last call, else one before it) depends on the seed and the question alone.
    """
    asked = itertools.count(1)

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
        if progress is not None:
            progress(next(asked), 0, "questions asked")
        return score

    return measure


def feedback_metric(metric: Metric) -> Callable[..., dspy.Prediction]:
    """A metric in GEPA's form, which returns a score and feedback.

    The feedback says what was expected and answered, what became of the evidence, and why the program stopped.
    """

    def with_feedback(
        gold: Any, pred: Any, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
    ) -> dspy.Prediction:
        score = metric(gold, pred)
        prediction = pred if isinstance(pred, dspy.Prediction) else {}  # DSPy passes another if none could be parsed
        expected = " or ".join(repr(answer) for answer in reference_answers(gold)[:5])
        lines = [f"The answer {prediction.get('answer') or ''!r} scores {score:.2f}; expected was {expected}."]
        if (steps := prediction.get("trace")) is not None:
            fates = evidence_fates(steps, gold.get("gold_ids") or ())
            lines += [f"The passage {passage!r} holds evidence: {fate}." for passage, fate in fates.items()]
            lines += [f"The program stopped because of: {stop.reason}." for stop in steps.of(Stopped)[-1:]]
        return dspy.Prediction(score=score, feedback=" ".join(lines))

    return with_feedback


class _Watch(BaseCallback):
    """Notices errors of an unreachable model, a refused key or a full disk; `stop` is the first such error.

    DSPy's optimizers skip the questions with such errors, so that the demonstrations would depend on them.
    """

    stop: Exception | None = None

    def on_module_end(self, call_id: str, outputs: Any | None, exception: BaseException | None = None) -> None:
        """Keep an error that would prevent other questions as well."""
        if exception is not None and self.stop is None:
            lost = is_connection_error(exception)
            unreachable = LanguageModelUnreachable(f"the language model could not be reached: {exception}")
            self.stop = unreachable if lost else fatal_cause(exception)


def _of_predictor(predictor: Any, demo: Any) -> dspy.Example | None:
    """A demonstration with the fields of its predictor alone; None if it lacks all inputs, or an output.

    A run of the program may lack some outputs; an example has to have all, reasoning aside.
    """
    signature, ran = predictor.signature, bool(demo.get("augmented"))
    fields = {name: demo[name] for name in signature.fields if name in demo and demo[name] is not None}
    outputs = {name for name in signature.output_fields if name not in _REASONING}
    enough = outputs & fields.keys() if ran else outputs <= fields.keys()
    if not enough or not fields.keys() & signature.input_fields.keys():
        return None
    return dspy.Example(**fields, **({"augmented": True} if ran else {}))
