"""How a study begins: demonstrations are bootstrapped, δ is calibrated, and the first trials are planned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dspy

from knowgap.compile.demonstrations.compile_program import compile_program
from knowgap.compile.demonstrations.demo_sets import DemoSets
from knowgap.compile.evaluation.evaluator import Progress
from knowgap.compile.study.search_space import Space
from knowgap.compile.study.shared_study import InitialTrial
from knowgap.compile.study.trials import PAPER
from knowgap.compile.thresholds.delta_calibration import calibrate
from knowgap.errors import UsageError, ValueOutOfBounds
from knowgap.programs.base import Program

__all__ = ["bootstrap_pool", "calibrated_values", "initial_trials"]


def bootstrap_pool(
    program: Program,
    trainset: Sequence[dspy.Example],
    metric: Callable[..., float],
    *,
    teacher_lm: dspy.BaseLM | None,
    num_sets: int,
    max_demos: int,
    seed: int,
    progress: Progress,
) -> DemoSets:
    """Run the program on training questions and cut its right runs into sets to choose from."""
    bootstrapped = None
    if trainset and program.predictors():
        bootstrapped = compile_program(
            program,
            trainset,
            metric=metric,
            optimizer="bootstrap",
            teacher_lm=teacher_lm,
            seed=seed,
            progress=progress,
            max_bootstrapped_demos=max(max_demos, num_sets * max_demos // 2),
        )
    return DemoSets.draw(program, bootstrapped, num_sets=num_sets, max_demos=max_demos, seed=seed)


def calibrated_values(program: Program, trainset: Sequence[dspy.Example]) -> list[dict[str, Any]]:
    """`[{"delta": δ}]` with the δ that the training questions suggest; empty where there is none to calibrate."""
    if "delta" not in program.hyperparameters() or not trainset:
        return []
    try:
        return [{"delta": calibrate(program, trainset).delta}]
    except (UsageError, ValueOutOfBounds):
        return []


def initial_trials(
    program: Program,
    space: Space,
    pool: DemoSets,
    start: Sequence[Mapping[str, Any]],
    calibrated: Sequence[Mapping[str, Any]],
) -> list[InitialTrial]:
    """The trials to begin with, no two the same.

    They are the paper's settings without demonstrations, the program as it is, the settings in `start`, the calibrated
    ones, and the program as it is with bootstrapped demonstrations.
    """
    current = program.values()
    paper = {name: space.defaults[name] for name in space.declared}
    wanted: list[tuple[str, Mapping[str, Any], Mapping[str, int]]] = [
        (PAPER, paper, {}),
        ("current", current, pool.own),
        *(("given", {**current, **values}, pool.own) for values in start),
        *(("calibrated", {**current, **values}, pool.own) for values in calibrated),
    ]
    if pool.sets:
        wanted.append(("bootstrapped", current, pool.bootstrapped))
    trials: list[InitialTrial] = []
    for label, values, chosen in wanted:
        parameters = space.parameters(values, chosen)
        if parameters not in [trial.parameters for trial in trials]:
            trials.append(InitialTrial(label=label, parameters=parameters))
    return trials
