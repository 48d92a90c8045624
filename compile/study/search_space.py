"""The search space of a study: a program's declared hyperparameters, and its demonstrations, as Optuna parameters.

A number that may be absent becomes two parameters: `name.set`, whether it is set, and `name`, the number where it is.
A hyperparameter with conditions is only searched where they hold, and keeps the program's value elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from knowgap.errors import UnknownName, UsageError
from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Hyperparameter, Integer, OptionalReal, RealNumber, Switch

if TYPE_CHECKING:
    from optuna import Trial

__all__ = ["Space"]


class Space:
    """What a study searches over.

    Args:
        program: gives the hyperparameters and the values of those that are left alone.
        include: only these hyperparameters; all that are declared to be tuned where absent.
        exclude: not these.
        ranges: narrower or wider (low, high) for numbers, by name, within the declared bounds.
        demonstrations: how many demonstration sets there are to choose from, by predictor.
        known: values that are to be tried, by name; ranges are widened to hold them.

    Raises:
        UnknownName: a name that is not a hyperparameter of the program.
        UsageError: a range for something that is not a number, or nothing to search over.
    """

    def __init__(
        self,
        program: Program,
        *,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        ranges: Mapping[str, tuple[float, float]] | None = None,
        demonstrations: Mapping[str, int] | None = None,
        known: Sequence[Mapping[str, Any]] = (),
    ):
        declared = program.hyperparameters()
        for name in [*(include or ()), *exclude, *(ranges or {}), *(name for values in known for name in values)]:
            if name not in declared:
                raise UnknownName.among(f"hyperparameter of {program.name}", name, declared)
        chosen = [name for name, d in declared.items() if (d.tune if include is None else name in include)]
        self.declared = _by_dependence({name: declared[name] for name in chosen if name not in exclude})
        self.values = program.values()
        self.defaults = {name: declaration.default for name, declaration in declared.items()}
        self.demonstrations = dict(demonstrations or {})
        self._known = [self.defaults, self.values, *known]
        self.ranges = {name: self._range(name, (ranges or {}).get(name)) for name in self.declared}
        if ranges and (odd := [name for name in ranges if name in self.ranges and self.ranges[name] is None]):
            raise UsageError(f"{odd[0]} is not a number: it has no range")
        if not self.declared and not self.demonstrations:
            raise UsageError(f"nothing to search over: {program.name} has no hyperparameter to tune")

    def suggest(self, trial: Trial) -> tuple[dict[str, Any], dict[str, int]]:
        """Let a trial choose.

        Returns:
            The value of every hyperparameter, whether searched over or not; and the chosen set by predictor.
        """
        values = dict(self.values)
        for name, declaration in self.declared.items():
            if declaration.active(values):
                values[name] = self._suggest(trial, name, declaration)
        chosen = {p: trial.suggest_categorical(f"demos.{p}", range(n)) for p, n in self.demonstrations.items()}
        return values, chosen

    def parameters(self, values: Mapping[str, Any], chosen: Mapping[str, int] | None = None) -> dict[str, Any]:
        """The inverse of `suggest`: what to enqueue so that a trial gets these values and demonstration sets."""
        full = {**self.values, **values}
        found: dict[str, Any] = {}
        for name, declaration in self.declared.items():
            if not declaration.active(full):
                continue
            value = declaration.check(full[name])
            if isinstance(declaration, OptionalReal):
                found[f"{name}.set"] = value is not None
            if value is not None:
                found[name] = value
        return found | {f"demos.{p}": (chosen or {}).get(p, 0) for p in self.demonstrations}

    def describe(self) -> dict[str, Any]:
        """The space as a JSON value: a study whose space differs is another study."""
        return {
            "hyperparameters": {
                name: [type(d).__name__, self.ranges[name] or d.bounds, {k: list(v) for k, v in d.when.items()}]
                for name, d in self.declared.items()
            },
            "fixed": {name: value for name, value in self.values.items() if name not in self.declared},
            "demonstrations": self.demonstrations,
        }

    def _suggest(self, trial: Trial, name: str, declaration: Hyperparameter[Any]) -> Any:
        match declaration:
            case Switch():
                return trial.suggest_categorical(name, [False, True])
            case Choice():
                return trial.suggest_categorical(name, list(declaration.choices))
            case Integer():
                low, high = self.ranges[name] or (declaration.low, declaration.high)
                return trial.suggest_int(name, int(low), int(high))
            case RealNumber():
                optional = isinstance(declaration, OptionalReal)
                if optional and not trial.suggest_categorical(f"{name}.set", [False, True]):
                    return None
                low, high = self.ranges[name] or declaration.search
                return trial.suggest_float(name, low, high)
            case _:
                raise UsageError(f"{name}: a study cannot search over a {type(declaration).__name__}")

    def _range(self, name: str, given: tuple[float, float] | None) -> tuple[float, float] | None:
        """The range of a number, wide enough for the default, the program's own value and those to be tried."""
        declaration = self.declared[name]
        if not isinstance(declaration, (Integer, RealNumber)):
            return None
        search = (declaration.low, declaration.high) if isinstance(declaration, Integer) else declaration.search
        low, high = (float(declaration.check(edge)) for edge in (given or search))
        known = [declaration.check(values[name]) for values in self._known if values.get(name) is not None]
        low, high = min([low, *known]), max([high, *known])
        if low > high:
            raise UsageError(f"{name}: the range {given} ends before it begins")
        return low, high


def _by_dependence(declared: Mapping[str, Hyperparameter[Any]]) -> dict[str, Hyperparameter[Any]]:
    """The same, each after those that its conditions name."""
    ordered: dict[str, Hyperparameter[Any]] = {}
    waiting = dict(declared)
    while waiting:
        ready = [name for name, d in waiting.items() if not any(other in waiting for other in d.when)]
        if not ready:
            raise UsageError(f"the conditions of {', '.join(waiting)} depend on one another in a circle")
        ordered |= {name: waiting.pop(name) for name in ready}
    return ordered
