"""Hyperparameters: declared once on a program's class, kept with its demonstrations, searched by a study.

A declaration is a data descriptor on the class: `program.top_k` reads and `program.top_k = 7` checks and sets.
The value itself lives in the instance as a `dspy.Parameter`, so `program.save` and `.load` write and read it beside
the demonstrations, `deepcopy` copies it, and DSPy's optimizers leave it alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

from dspy.predict.parameter import Parameter

from knowgap.errors import ValueOutOfBounds

__all__ = ["Choice", "Hyperparameter", "Integer", "OptionalReal", "Real", "Setting", "Switch", "Threshold"]

T = TypeVar("T")
Self = TypeVar("Self", bound="Hyperparameter[Any]")


class Hyperparameter(Generic[T]):
    """The declaration of one hyperparameter.

    Args:
        default: its value unless told otherwise; the paper's, where the paper gives one.
        help: one line that says what it does.
        when: other hyperparameters' values under which this one has any effect, e.g. `{"sentence_filter": (True,)}`;
            a study leaves it alone elsewhere.
        tune: whether a study searches over it.
    """

    name: str = ""

    def __init__(self, default: T, help: str, *, when: Mapping[str, Sequence[Any]] | None = None, tune: bool = True):
        self.default, self.help, self.tune = default, help, tune
        self.when: dict[str, tuple[Any, ...]] = {key: tuple(values) for key, values in (when or {}).items()}

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self: Self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Any:
        return self if instance is None else self.read(instance)

    def __set__(self, instance: object, value: T) -> None:
        self.write(instance, value)

    def __deepcopy__(self: Self, memo: dict[int, Any]) -> Self:
        return self  # a declaration is shared by all instances of its class

    def read(self, instance: object) -> T:
        """The value held by `instance`."""
        return instance.__dict__[self.name].value

    def write(self, instance: object, value: Any) -> None:
        """Check `value` and hold it in `instance`.

        Raises:
            ValueOutOfBounds: with the name, the value and the bounds.
        """
        instance.__dict__[self.name] = Setting(self, self.check(value))

    def check(self, value: Any) -> T:
        """Return `value` in its declared type, or refuse it by name, value and bounds."""
        raise TypeError("declare an Integer, Real, Switch or Choice")

    def refuse(self, value: Any) -> ValueOutOfBounds:
        """The error for a `value` outside the declared range."""
        return ValueOutOfBounds(f"{self.name}={value!r} is out of bounds: it takes {self.bounds}")

    @property
    def bounds(self) -> str:
        """The range in words."""
        return "any value"

    def active(self, values: Mapping[str, Any]) -> bool:
        """Whether this hyperparameter has an effect beside the other `values`."""
        return all(values.get(name) in allowed for name, allowed in self.when.items())


class Integer(Hyperparameter[int]):
    """A whole number from `low` to `high`, both included."""

    def __init__(self, default: int, help: str, *, low: int, high: int, **kwargs: Any):
        super().__init__(default, help, **kwargs)
        self.low, self.high = low, high

    def check(self, value: Any) -> int:
        """Accept whole numbers in range, also as text or as a float without fraction."""
        try:
            number = int(value)
            whole = not isinstance(value, bool) and number == float(value)
        except (TypeError, ValueError, OverflowError):
            raise self.refuse(value) from None
        if not whole or not self.low <= number <= self.high:
            raise self.refuse(value)
        return number

    @property
    def bounds(self) -> str:
        """The range in words."""
        return f"whole numbers from {self.low} to {self.high}"


class OptionalReal(Hyperparameter["float | None"]):
    """A number from `low` to `high`, or None for "not set" (what that means is in `help`).

    Args:
        search: a narrower range for a study; the whole range if absent.
    """

    optional = True

    def __init__(
        self,
        default: float | None,
        help: str,
        *,
        low: float,
        high: float,
        search: tuple[float, float] | None = None,
        **kwargs: Any,
    ):
        super().__init__(default, help, **kwargs)
        self.low, self.high, self.search = low, high, search or (low, high)

    def check(self, value: Any) -> Any:
        """Accept finite numbers in range, also as text, and None where it is optional."""
        if self.optional and (value is None or value in ("", "none", "None")):
            return None
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise self.refuse(value) from None
        if isinstance(value, bool) or not math.isfinite(number) or not self.low <= number <= self.high:
            raise self.refuse(value)
        return number

    @property
    def bounds(self) -> str:
        """The range in words."""
        return f"numbers from {self.low:g} to {self.high:g}" + (", or none" if self.optional else "")


class Real(OptionalReal):
    """A number from `low` to `high`, both included."""

    optional = False

    @overload
    def __get__(self: Self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> float: ...
    def __get__(self, instance: object | None, owner: type) -> Any:
        return super().__get__(instance, owner)  # pyright: ignore[reportArgumentType, reportCallIssue]


class Threshold(OptionalReal):
    """The probability from which a model's yes counts as one; none asks for a plain yes or no.

    With a threshold set, the predictor's boolean output is asked for as a DSPy decision (`Noul`): the backend gives a
    probability, and DSPy compares it.

    Args:
        predictor: attribute name of the predictor that decides.
        field: its boolean output.
    """

    def __init__(self, predictor: str, field: str, help: str, **kwargs: Any):
        super().__init__(None, help, low=0.0, high=1.0, **kwargs)
        self.predictor, self.field = predictor, field

    def apply(self, instance: object, predictor: Any) -> None:
        """Bring the predictor's decision configuration in line with the value held by `instance`."""
        value = self.read(instance)
        configured = predictor.fields.get(self.field, {}).get("threshold")
        if value is None and configured is not None:
            predictor.fields = {name: fields for name, fields in predictor.fields.items() if name != self.field}
        elif value != configured:
            fields = {**predictor.fields.get(self.field, {}), "threshold": value}
            predictor.fields = {**predictor.fields, self.field: fields}


class Switch(Hyperparameter[bool]):
    """On or off."""

    def check(self, value: Any) -> bool:
        """Accept True and False, and the words of a command line for them."""
        if isinstance(value, bool):
            return value
        word = str(value).strip().lower()
        if word in ("true", "on", "yes", "1"):
            return True
        if word in ("false", "off", "no", "0"):
            return False
        raise self.refuse(value)

    @property
    def bounds(self) -> str:
        """The range in words."""
        return "true or false"


class Choice(Hyperparameter[str]):
    """One of a few words."""

    def __init__(self, default: str, help: str, *, choices: Sequence[str], **kwargs: Any):
        super().__init__(default, help, **kwargs)
        self.choices = tuple(choices)

    def check(self, value: Any) -> str:
        """Accept a word of the list."""
        if value not in self.choices:
            raise self.refuse(value)
        return value

    @property
    def bounds(self) -> str:
        """The range in words."""
        return "one of " + ", ".join(self.choices)


class Setting(Parameter):
    """The value of one hyperparameter in one program: what DSPy saves, loads and copies."""

    def __init__(self, declaration: Hyperparameter[Any], value: Any):
        self.declaration, self.value = declaration, value

    def reset(self) -> None:
        """Do nothing: an optimizer that clears demonstrations must not clear hyperparameters."""

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """The value, for `program.save`."""
        return {"value": self.value}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take the value of a saved program, checked against today's bounds."""
        self.value = self.declaration.check(state["value"])

    def __repr__(self) -> str:
        return f"{self.declaration.name}={self.value!r}"
