"""DSPy's optimizers by name, and how each of them is run."""

from __future__ import annotations

import inspect
import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from knowgap.compiling.demonstrations.feedback import feedback_metric
from knowgap.compiling.evaluation.metrics import Metric
from knowgap.compiling.run import Run
from knowgap.errors import UnknownName, UsageError
from knowgap.programs.base import Program
from knowgap.storage.progress import Progress

_REASONING = ("reasoning", "explanation")
_RIGHT_RUNS = {"max_bootstrapped_demos": 4, "max_labeled_demos": 0, "metric_threshold": 1.0}
_OPTIONS_OF_NOBODY = frozenset(("self", "student", "teacher", "kwargs", "eval_kwargs", "requires_permission_to_run"))


@dataclass(frozen=True)
class Optimizer:
    """One of DSPy's optimizers.

    Args:
        class_name: the class in `dspy`.
        summary: one line that says what it does.
        defaults: the default options that differ from DSPy's.
        writes: whether it asks the language model to write instructions, which the embedded reader cannot.
    """

    class_name: str
    summary: str
    defaults: Mapping[str, Any]
    writes: bool = False

    def run(
        self,
        student: Program,
        trainset: Sequence[dspy.Example],
        valset: Sequence[dspy.Example],
        metric: Metric,
        author: dspy.BaseLM,
        run: Run,
        options: Mapping[str, Any],
    ) -> Program:
        """Compile a program; `author` makes the demonstrations and writes the instructions.

        Raises:
            UnknownName: an option that neither the class's constructor nor its compile step takes.
            UsageError: the examples have the outputs of no predictor (of "labeled").
        """
        kind = getattr(dspy, self.class_name)
        constructor, step = (inspect.signature(each).parameters for each in (kind.__init__, kind.compile))
        given = {
            "metric": feedback_metric(metric) if self.class_name == "GEPA" else _one_call_each(metric, run.seed),
            "trainset": [*trainset],
            "valset": [*valset],
            "teacher_settings": {"lm": author},
            "prompt_model": author,
            "reflection_lm": author,
            "task_model": dspy.settings.lm,
            "num_threads": run.num_threads,
            "seed": run.seed + 1,  # MIPROv2 takes 0 for "not given"
        }
        known = {*constructor, *step} - {*given} - _OPTIONS_OF_NOBODY
        for option in options:
            if option not in known:
                raise UnknownName.among(f"option of {self.class_name}", option, known)
        given |= {**self.defaults, **self._sizes(len(valset), options), **options}
        made = kind(**{name: value for name, value in given.items() if name in constructor})
        arguments = {name: value for name, value in given.items() if name in step and name not in constructor}
        return made.compile(student, **arguments)

    def _sizes(self, n_val: int, options: Mapping[str, Any]) -> dict[str, Any]:
        """How much an optimizer that writes does, if the options do not say."""
        if self.class_name == "MIPROv2":
            given = {} if options.get("num_candidates") is None else {"auto": None}
            return {**given, "minibatch": n_val > options.get("minibatch_size", 35)}
        own_limit = {"auto", "max_full_evals", "max_metric_calls"} & {*options}
        return {"auto": "light"} if self.class_name == "GEPA" and not own_limit else {}


OPTIMIZERS: dict[str, Optimizer] = {
    "labeled": Optimizer("LabeledFewShot", "shows examples as they are", {"k": 4}),
    "bootstrap": Optimizer("BootstrapFewShot", "shows runs of the program that ended in the right answer", _RIGHT_RUNS),
    "random_search": Optimizer(
        "BootstrapFewShotWithRandomSearch",
        "bootstraps several sets and keeps the best on the valset",
        {"num_candidate_programs": 8, **_RIGHT_RUNS},
    ),
    "mipro": Optimizer("MIPROv2", "words instructions and picks demonstrations", {"max_labeled_demos": 0}, writes=True),
    "gepa": Optimizer("GEPA", "rewrites instructions after reading what went wrong", {}, writes=True),
}
"""The optimizers by name."""


def check_labels(program: Program, example: dspy.Example) -> list[str]:
    """The names of the predictors whose outputs, reasoning aside, and one of whose inputs an example has.

    Raises:
        UsageError: there are none.
    """
    given = {name for name in example if example[name] is not None}
    labelled: list[str] = []
    for name, predictor in program.named_predictors():
        signature: Any = predictor.signature
        outputs = {output for output in signature.output_fields if output not in _REASONING}
        if outputs and outputs <= given and given & {*signature.input_fields}:
            labelled.append(name)
    if not labelled:
        raise UsageError(
            f"the optimizer labeled cannot be used: examples have the outputs of no predictor of {program.name}; use "
            "bootstrap, which gets them by running the program"
        )
    return labelled


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
