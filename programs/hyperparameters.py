"""Hyperparameters: declared once on a program's class, saved with its demonstrations, searched by a study.

A declaration is a data descriptor on the class: `program.top_k` reads the value, `program.top_k = 7` checks and sets
it. The instance holds a copy of the declaration with its value, a `dspy.Parameter`: `program.save` and `.load` keep it
beside the demonstrations, `deepcopy` copies it, and DSPy's optimizers leave it alone.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import dspy
from dspy.predict.parameter import Parameter
from pydantic import Field, TypeAdapter
from typing_extensions import Self

from knowgap.errors import UnknownName, ValueOutOfBounds
from knowgap.retrieval.passage import RetrieverLike


class Hyperparameter(Parameter):
    """One hyperparameter: its declaration and, in a program, its value.

    Args:
        default: the paper's value if the paper gives one; None makes the hyperparameter optional.
        help: one line that says what it does.
        when: the values of other hyperparameters under which this one has an effect, e.g. `{"review": [True]}`; a study
            searches over it only then.
        tune: whether a study searches over it at all.
    """

    name: str = ""
    kind: Any
    """The type of the values with their bounds, as pydantic takes it."""
    bounds: str
    """The permitted values in words."""

    def __init__(self, default: Any, help: str, *, when: Mapping[str, Sequence[Any]] | None = None, tune: bool = True):
        self.default, self.help, self.when, self.tune = default, help, when or {}, tune
        self.value, self.optional = default, default is None

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object | None, owner: type) -> Any:
        return self if instance is None else vars(instance).get(self.name, self).value

    def __set__(self, instance: object, value: Any) -> None:
        own = copy.copy(self)
        own.value = self.check(value.value if isinstance(value, Hyperparameter) else value)  # DSPy copies attributes
        vars(instance)[self.name] = own

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy.copy(self)

    def reset(self) -> None:
        """Do nothing: an optimizer that clears demonstrations must not clear hyperparameters."""

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """The state that `program.save` writes."""
        return {"value": self.value}

    def load_state(self, state: dict[str, Any]) -> None:
        """Load a saved value, checked against the current bounds."""
        self.value = self.check(state["value"])

    def check(self, value: Any) -> Any:
        """Convert `value`, which may be a text (`none` for None), to the declared type.

        Raises:
            ValueOutOfBounds: with the name, the value and the bounds.
        """
        if self.optional and value in (None, "none"):
            return None
        try:
            return TypeAdapter[Any](self.kind).validate_python(value)
        except ValueError:
            raise ValueOutOfBounds(f"{self.name}={value!r} is out of bounds: it takes {self.bounds}") from None

    def active(self, values: Mapping[str, Any]) -> bool:
        """Whether this hyperparameter has an effect, given the `values` of the others."""
        return all(values.get(name) in allowed for name, allowed in self.when.items())


class Real(Hyperparameter):
    """A number from `low` to `high`, both included; or None, if that is the default.

    Args:
        search: a narrower range for a study; None for the whole range.
    """

    whole = False

    def __init__(self, default: float | None, help: str, *, low: float, high: float, search: Any = None, **more: Any):
        super().__init__(default, help, **more)
        self.low, self.high, self.search = low, high, search or (low, high)
        self.kind = Annotated[int if self.whole else float, Field(ge=low, le=high)]
        self.bounds = f"{'whole ' * self.whole}numbers from {low:g} to {high:g}{', or none' * self.optional}"


class Integer(Real):
    """A whole number."""

    whole = True


class Threshold(Real):
    """The probability from which a model's yes counts; None asks for a plain yes or no.

    With a threshold set, DSPy asks for the predictor's boolean output as a decision (`Noul`): the backend gives a
    probability, which DSPy compares with the threshold.

    Args:
        predictor: attribute name of the predictor that decides.
        field: its boolean output.
    """

    def __init__(self, predictor: str, field: str, help: str, **more: Any):
        super().__init__(None, help, low=0.0, high=1.0, **more)
        self.predictor, self.field = predictor, field

    def apply(self, program: Any) -> None:
        """Configure the decision of a program's predictor with the program's value."""
        value, predictor = getattr(program, self.name), getattr(program, self.predictor)
        others = {name: options for name, options in predictor.fields.items() if name != self.field}
        predictor.fields = others if value is None else {**others, self.field: {"threshold": value}}


class Switch(Hyperparameter):
    """On or off; also given as text, such as `true`, `on`, `yes` or `1`."""

    kind, bounds = bool, "true or false"


class Choice(Hyperparameter):
    """One of a few words."""

    def __init__(self, default: str, help: str, *, choices: Sequence[str], **more: Any):
        super().__init__(default, help, **more)
        self.choices = tuple(choices)
        self.kind, self.bounds = Literal[self.choices], f"one of {', '.join(self.choices)}"


class Configurable(dspy.Module):
    """The part of a program that has hyperparameters, and presets of them.

    Attributes:
        name: the program's name in the registry; by default the name of the class.
        presets: the hyperparameters that the paper uses for each family of tasks, by preset name.
        code: the class that declares the hyperparameters: the program's own, or that of the module it wraps.
    """

    name: ClassVar[str]
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    code: ClassVar[type]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.name, cls.code = vars(cls).get("name", cls.__name__), vars(cls).get("code", cls)

    @classmethod
    def hyperparameters(cls) -> dict[str, Hyperparameter]:
        """The declared hyperparameters by name, those of base classes first."""
        classes = reversed(cls.code.__mro__)
        return {name: each for c in classes for name, each in vars(c).items() if isinstance(each, Hyperparameter)}

    @classmethod
    def from_preset(cls, name: str, retriever: RetrieverLike | None = None, **kwargs: Any) -> Self:
        """Make a program with a preset's hyperparameters; `kwargs` are arguments of the class and override them.

        Raises:
            UnknownName: the program has no such preset.
        """
        if name not in cls.presets:
            raise UnknownName.among(f"preset of {cls.name}", name, cls.presets)
        return cls(retriever, **{**cls.presets[name], **kwargs})

    @property
    def holder(self) -> dspy.Module:
        """The module that has the hyperparameters: the program, or what a `ModuleProgram` wraps."""
        return self

    def values(self) -> dict[str, Any]:
        """The current values of all hyperparameters."""
        return {name: getattr(self.holder, name) for name in self.hyperparameters()}

    def configure(self, **values: Any) -> Self:
        """Set hyperparameters and return the program; if one value is refused, none is set.

        Raises:
            UnknownName: a name is not declared.
            ValueOutOfBounds: a value is outside its bounds.
        """
        declared = self.hyperparameters()
        for name in values.keys() - declared.keys():
            raise UnknownName.among(f"hyperparameter of {self.name}", name, declared)
        for name, value in {name: declared[name].check(value) for name, value in values.items()}.items():
            setattr(self.holder, name, value)
        return self

    def __repr__(self) -> Any:
        declared = self.hyperparameters()
        changed = [f"{name}={value!r}" for name, value in self.values().items() if value != declared[name].default]
        return f"{type(self).__name__}({', '.join(changed)})"
