"""The trials that a study runs before it draws any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import dspy

from knowgap.compiling.study.config import StudyConfig
from knowgap.compiling.study.space import PROGRAM, SearchSpace, program_prefix
from knowgap.compiling.study.trials import AFTER_FIRST_ROUND, BOOTSTRAPPED, DEFAULT
from knowgap.compiling.thresholds import calibrate_delta
from knowgap.errors import UsageError, ValueOutOfBounds
from knowgap.programs.base import Program

if TYPE_CHECKING:
    from optuna import Study

_CALIBRATED = "calibrated"


class InitialTrial(NamedTuple):
    """A trial that is run before any is drawn: why it is tried, and Optuna's parameters by name."""

    label: str
    program: str
    parameters: dict[str, Any]


def list_initial_trials(
    programs: Mapping[str, Program],
    config: StudyConfig,
    known: Mapping[str, Sequence[Mapping[str, Any]]],
    demos: Literal["", "own", "bootstrapped"],
) -> list[InitialTrial]:
    """List the initial trials, the same in every process.

    For each program, they are the following, without repetitions: the defaults without demonstrations; the program as
    it is; the settings in `config.start`; the program with its calibrated δ; and the program with bootstrapped
    demonstrations. The first three of all programs come before the rest. `known` is the result of `known_settings`;
    `demos` says which demonstrations trials choose from: none, the program's own, or bootstrapped ones as well.
    """
    initial: list[InitialTrial] = []
    for name, program in programs.items():
        prefix = program_prefix(name, len(programs))
        own = config.of_program(prefix)
        space = SearchSpace(program, own, known=known[name], prefix=prefix)
        current, chosen = program.values(), {PROGRAM: name} if prefix else {}
        brought = demos != "" and any(getattr(predictor, "demos", ()) for predictor in program.predictors())
        wanted = [(DEFAULT, {n: space.defaults[n] for n in space.declared}), ("current", current)]
        wanted += [("given", {**current, **values}) for values in own.start]
        wanted += [(_CALIBRATED, {**current, **values}) for values in known[name][len(own.start) :]]
        tried: list[dict[str, Any]] = []
        for label, values in wanted:
            parameters = chosen | space.parameters(values)
            if parameters not in tried or (brought and label == "current"):
                tried.append(parameters)
                initial.append(InitialTrial(label, name, parameters))
        if brought or (demos == "bootstrapped" and program.predictors()):
            initial.append(InitialTrial(BOOTSTRAPPED, name, chosen | space.parameters(current)))
    return sorted(initial, key=lambda trial: trial.label in AFTER_FIRST_ROUND)


def known_settings(
    study: Study, programs: Mapping[str, Program], trainset: Sequence[dspy.Example], config: StudyConfig
) -> dict[str, list[dict[str, Any]]]:
    """For each program, the settings in `config.start`, and δ calibrated on the training questions, if it is searched.

    The first process that calibrates δ stores it with the study.
    """
    known: dict[str, list[dict[str, Any]]] = {}
    for name, program in programs.items():
        own = config.of_program(program_prefix(name, len(programs)))
        known[name] = list(own.start)
        searched = "delta" not in own.exclude and (own.include is None or "delta" in own.include)
        if not (searched and "delta" in program.hyperparameters() and trainset):
            continue
        stored = f"{_CALIBRATED}.{name}"
        if stored not in study.user_attrs:
            try:
                delta = calibrate_delta(program, trainset).delta
            except (UsageError, ValueOutOfBounds):
                delta = None  # no reranker, or too few questions that find a passage
            study.set_user_attr(stored, delta)
        if study.user_attrs[stored] is not None:
            known[name].append({"delta": study.user_attrs[stored]})
    return known
