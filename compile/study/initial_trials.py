"""How a study is set up: demonstrations are bootstrapped, δ is calibrated, and the initial trials are listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from knowgap.compile.demonstrations.compile_program import compile_program
from knowgap.compile.demonstrations.demo_sets import DemoSets
from knowgap.compile.evaluation.metrics import Metric
from knowgap.compile.study.config import DemoConfig, StudyConfig
from knowgap.compile.study.search_space import SearchSpace
from knowgap.compile.study.shared_study import InitialTrial, SetUp
from knowgap.compile.study.trials import PAPER
from knowgap.compile.thresholds.delta_calibration import calibrate
from knowgap.errors import UsageError, ValueOutOfBounds
from knowgap.programs.base import Program
from knowgap.programs.trace.usage import UsageTracker, track_usage
from knowgap.retrieval.index.build import Progress

__all__ = ["make_set_up"]


def make_set_up(
    program: Program,
    trainset: Sequence[dspy.Example],
    metric: Metric,
    config: StudyConfig,
    demos: DemoConfig,
    *,
    seed: int,
    prices: tuple[float, float] | None,
    progress: Progress,
) -> SetUp:
    """Bootstrap demonstrations, calibrate δ and list the initial trials.

    The initial trials are, each once: the paper's settings without demonstrations; the program as it is; the settings
    in `config.start`; the program with δ as it is calibrated; and the program with bootstrapped demonstrations.
    """
    tracker, pool = UsageTracker(prices), DemoSets()
    if demos.mode != "none":
        bootstrapped = None
        if trainset and program.predictors():
            with track_usage(tracker):
                bootstrapped = compile_program(
                    program,
                    trainset,
                    metric=metric,
                    optimizer="bootstrap",
                    teacher_lm=demos.teacher_lm,
                    seed=seed,
                    progress=progress,
                    max_bootstrapped_demos=max(demos.max_demos, demos.num_sets * demos.max_demos // 2),
                )
        pool = DemoSets.draw(program, bootstrapped, num_sets=demos.num_sets, max_demos=demos.max_demos, seed=seed)
    calibrated = _calibrate_delta(program, trainset) if "delta" not in config.exclude else []
    known = [*config.start, *calibrated]
    space = SearchSpace(program, config, num_demo_sets=pool.sizes, known=known)
    paper, current = {name: space.defaults[name] for name in space.declared}, program.values()
    wanted: list[tuple[str, Mapping[str, Any], Mapping[str, int]]] = [
        (PAPER, paper, {}),
        ("current", current, pool.own),
        *(("given", {**current, **values}, pool.own) for values in config.start),
        *(("calibrated", {**current, **values}, pool.own) for values in calibrated),
    ]
    if pool.sets:
        wanted.append(("bootstrapped", current, pool.bootstrapped))
    initial: list[InitialTrial] = []
    for label, values, chosen in wanted:
        parameters = space.parameters(values, chosen)
        if parameters not in [trial.parameters for trial in initial]:
            initial.append(InitialTrial(label=label, parameters=parameters))
    return SetUp(initial=initial, known=known, spent=tracker.usage, pool=pool)


def _calibrate_delta(program: Program, trainset: Sequence[dspy.Example]) -> list[dict[str, Any]]:
    """`[{"delta": δ}]` with the δ that the training questions suggest; empty if there is none to calibrate."""
    if "delta" not in program.hyperparameters() or not trainset:
        return []
    try:
        return [{"delta": calibrate(program, trainset).delta}]
    except (UsageError, ValueOutOfBounds):
        return []
