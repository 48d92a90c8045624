"""The search space of a study: a program's declared hyperparameters, and its demonstrations, as Optuna parameters.

A number that may be None becomes two parameters: `name.set`, whether it is a number, and `name`, the number if it is.
A whole number is searched up to four times its default, at least up to 5, unless a range is given. The scale of a wide
range is logarithmic, so that small numbers, which make trials cheap, are tried as often as large ones.
A hyperparameter with conditions is only searched if they hold, and otherwise keeps the program's value.
"""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any

from knowgap.compiling.study.config import StudyConfig
from knowgap.errors import UsageError
from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Hyperparameter, Integer, Real, Switch

if TYPE_CHECKING:
    from optuna import Trial

_MOST_TIMES = 4
"""A whole number is searched up to this many times its default: a trial with fifty passages costs as much as ten."""

_WIDE = 10
"""From this ratio of its ends on, the range of a whole number has a logarithmic scale."""


class SearchSpace:
    """The hyperparameters and demonstration sets that a study searches over.

    Args:
        program: the program with the hyperparameters; those that are not searched keep its values.
        config: which hyperparameters are searched, and in which ranges.
        num_demo_sets: number of demonstration sets to choose from, by predictor.

    Raises:
        UnknownName: a name that is not a hyperparameter of the program.
        UsageError: a range for something that is not a number; or nothing to search over.
    """

    def __init__(
        self, program: Program, config: StudyConfig = StudyConfig(), *, num_demo_sets: Mapping[str, int] | None = None
    ):
        declared = program.hyperparameters()
        config.check_names(program)
        tuned = [name for name, d in declared.items() if d.tune or name in config.ranges]
        included = [name for name in declared if name in (tuned if config.include is None else config.include)]
        conditions = {name: [other for other in declared[name].when if other in included] for name in included}
        # each follows those that its conditions name
        self.declared = {name: declared[name] for name in TopologicalSorter(conditions).static_order()}
        self.values = program.values()
        self.defaults = {name: declaration.default for name, declaration in self.declared.items()}
        self.num_demo_sets = dict(num_demo_sets or {})
        self.ranges: dict[str, tuple[float, float]] = {}
        for name, declaration in self.declared.items():
            if isinstance(declaration, Real):
                self.ranges[name] = self._range(name, declaration, config.ranges.get(name))
            elif name in config.ranges:
                raise UsageError(f"{name} is not a number, so it cannot have a range")
        if not self.declared and not self.num_demo_sets:
            raise UsageError(f"nothing to search over: {program.name} has no hyperparameter to tune")

    def suggest(self, trial: Trial) -> tuple[dict[str, Any], dict[str, int]]:
        """Let a trial choose.

        Returns:
            The value of every hyperparameter, searched over or not; and the number of the chosen demonstration set by
            predictor.
        """
        values = dict(self.values)
        for name, declaration in self.declared.items():
            if declaration.active(values):
                values[name] = self._suggest(trial, name, declaration)
        return values, {p: trial.suggest_categorical(f"demos.{p}", range(n)) for p, n in self.num_demo_sets.items()}

    def parameters(self, values: Mapping[str, Any], chosen: Mapping[str, int] | None = None) -> dict[str, Any]:
        """The inverse of `suggest`: Optuna's parameters of a trial with these values and demonstration sets."""
        full = {**self.values, **values}
        parameters: dict[str, Any] = {}
        for name, declaration in self.declared.items():
            if not declaration.active(full):
                continue
            value = declaration.check(full[name])
            if declaration.optional:
                parameters[f"{name}.set"] = value is not None
            if value is not None:
                parameters[name] = value
        return parameters | {f"demos.{p}": (chosen or {}).get(p, 0) for p in self.num_demo_sets}

    def _suggest(self, trial: Trial, name: str, declaration: Hyperparameter) -> Any:
        match declaration:
            case Switch():
                return trial.suggest_categorical(name, [False, True])
            case Choice():
                return trial.suggest_categorical(name, list(declaration.choices))
            case Real():
                if declaration.optional and not trial.suggest_categorical(f"{name}.set", [False, True]):
                    return None
                low, high = self.ranges[name]
                if declaration.whole:
                    return trial.suggest_int(name, int(low), int(high), log=low >= 1 and high >= _WIDE * low)
                return trial.suggest_float(name, low, high)
            case _:
                raise UsageError(f"{name}: a study cannot search over a {type(declaration).__name__}")

    def _range(self, name: str, declaration: Real, given: tuple[float, float] | None) -> tuple[float, float]:
        """The range of a number, wide enough for the default and the program's own value."""
        if isinstance(declaration, Integer) and not declaration.optional:
            search = (declaration.low, min(declaration.high, max(5, _MOST_TIMES * declaration.default)))
        else:
            search = declaration.search
        low, high = (float(declaration.check(edge)) for edge in (given or search))
        if low > high:
            raise UsageError(f"{name}: the lower end of the range {given} is above the upper end")
        known = [values[name] for values in (self.defaults, self.values) if values[name] is not None]
        return min([low, *known]), max([high, *known])
