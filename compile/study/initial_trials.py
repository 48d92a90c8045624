"""How a study is set up: demonstrations are bootstrapped, δ is calibrated, and the initial trials are listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dspy

from knowgap.compiling.demonstrations.compile_program import compile_program
from knowgap.compiling.demonstrations.demo_sets import DemoSets
from knowgap.compiling.evaluation.metrics import Metric
from knowgap.compiling.study.config import DemoConfig, StudyConfig
from knowgap.compiling.study.search.space import PROGRAM, SearchSpace, program_prefix
from knowgap.compiling.study.shared_study import InitialTrial, MadeDemos, SetUp
from knowgap.compiling.study.trials import AFTER_FIRST_ROUND, BOOTSTRAPPED, PAPER
from knowgap.compiling.thresholds.delta_calibration import calibrate
from knowgap.errors import UsageError, ValueOutOfBounds
from knowgap.lms.metering import Prices, UsageTracker, track_usage
from knowgap.programs.base import Program
from knowgap.storage.progress import Progress

__all__ = ["bootstrap_demos", "make_set_up"]


def make_set_up(
    programs: Mapping[str, Program],
    trainset: Sequence[dspy.Example],
    config: StudyConfig,
    demos: DemoConfig,
    bootstrap: Callable[[Program], MadeDemos],
) -> SetUp:
    """Bootstrap demonstrations, calibrate δ and list the initial trials.

    The initial trials of a program are, each once: the paper's settings without demonstrations; the program as it is;
    the settings in `config.start`; the program with δ as it is calibrated; and the program with bootstrapped
    demonstrations. The first three of all programs come before the rest. Demonstrations of one program among several
    are bootstrapped when it comes to that trial, unless it brings some along.
    """
    set_up = SetUp(initial=[], known={}, demos={})
    initial: list[InitialTrial] = []
    for name, program in programs.items():
        prefix = program_prefix(name, len(programs))
        own = config.of_program(prefix)
        brought = any(getattr(predictor, "demos", ()) for predictor in program.predictors())
        later = bool(prefix and trainset and not brought and demos.mode != "none")
        made = MadeDemos() if later else bootstrap(program)
        if not later:
            set_up.demos[name] = made
        calibrated = _calibrate_delta(program, trainset) if "delta" not in own.exclude else []
        set_up.known[name] = [*own.start, *calibrated]
        pool = made.pool
        space = SearchSpace(program, own, num_demo_sets=pool.sizes, known=set_up.known[name], prefix=prefix)
        paper, current = {n: space.defaults[n] for n in space.declared}, program.values()
        wanted: list[tuple[str, Mapping[str, Any], Mapping[str, int]]] = [
            (PAPER, paper, {}),
            ("current", current, pool.own),
            *(("given", {**current, **values}, pool.own) for values in own.start),
            *(("calibrated", {**current, **values}, pool.own) for values in calibrated),
        ]
        if pool.sets or later:
            wanted.append((BOOTSTRAPPED, current, pool.bootstrapped))
        tried: list[dict[str, Any]] = []
        for label, values, chosen in wanted:
            parameters = ({PROGRAM: name} if prefix else {}) | space.parameters(values, chosen)
            if parameters not in tried or (label == BOOTSTRAPPED and later):
                tried.append(parameters)
                initial.append(InitialTrial(label=label, program=name, parameters=parameters))
    set_up.initial = sorted(initial, key=lambda trial: trial.label in AFTER_FIRST_ROUND)
    return set_up


def bootstrap_demos(
    trainset: Sequence[dspy.Example],
    metric: Metric,
    demos: DemoConfig,
    seed: int,
    prices: Prices | None,
    progress: Progress,
    program: Program,
) -> MadeDemos:
    """Make the demonstration sets that trials of a program choose from; none if demonstrations are left alone."""
    if demos.mode == "none":
        return MadeDemos()
    tracker, bootstrapped = UsageTracker(prices), None
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
    return MadeDemos(pool=pool, spent=tracker.usage)


def _calibrate_delta(program: Program, trainset: Sequence[dspy.Example]) -> list[dict[str, Any]]:
    """`[{"delta": δ}]` with the δ that the training questions suggest; empty if there is none to calibrate."""
    if "delta" not in program.hyperparameters() or not trainset:
        return []
    try:
        return [{"delta": calibrate(program, trainset).delta}]
    except (UsageError, ValueOutOfBounds):
        return []
