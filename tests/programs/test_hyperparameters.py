"""Hyperparameters are checked when set, kept with the demonstrations, and left alone by DSPy's optimizers."""

import math
from typing import ClassVar

import dspy
import pytest
from support import play

from knowgap.errors import ValueOutOfBounds
from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Integer, Real, Switch, Threshold
from knowgap.signatures import SelfKnowledge


class Sure(Program):
    """Answers where it is sure to know; it has one hyperparameter of each kind."""

    name = "sure"
    needs_retriever = False
    presets: ClassVar = {"careful": {"tries": 1, "sure": 0.9}}

    tries = Integer(3, "attempts", low=1, high=9)
    weight = Real(0.5, "weight of something", low=0.0, high=1.0)
    delta = Real(None, "a cut", low=-5.0, high=5.0, search=(-1.0, 1.0))
    strict = Switch(True, "be strict")
    mode = Choice("fast", "how", choices=("fast", "slow"), when={"strict": [True]})
    sure = Threshold("gate", "knows", "probability from which the model counts as sure")

    def __init__(self, retriever=None, **kwargs):
        super().__init__(retriever, **kwargs)
        self.gate = dspy.Predict(SelfKnowledge)

    def forward(self, question):
        output = self.ask(self.gate, question=question)
        return self.conclude("Oslo" if output and output.knows else "unknown", [])


def test_declarations_and_values():
    one, other = Sure(tries=4, mode="slow"), Sure()
    assert one.values() == {**other.values(), "tries": 4, "mode": "slow"}
    one.tries = 2
    assert (one.tries, other.tries) == (2, 3)
    assert (Sure.delta.search, Sure.weight.search) == ((-1.0, 1.0), (0.0, 1.0))
    assert repr(Sure(tries=7, mode="slow")) == "Sure(tries=7, mode='slow')"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("tries", {"7": 7, 7.0: 7, 1: 1, 9: 9}),
        ("weight", {"0.25": 0.25, 1: 1.0, 0: 0.0}),
        ("delta", {"-1e0": -1.0, "none": None, None: None}),
        ("strict", {"off": False, "TRUE": True, 1: True}),
        ("mode", {"slow": "slow"}),
        ("sure", {"0.8": 0.8, "none": None}),
    ],
)
def test_accepts_values_and_their_text(name, values):
    for given, value in values.items():
        found = getattr(Sure(**{name: given}), name)
        assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "bounds", "values"),
    [
        ("tries", "whole numbers from 1 to 9", [0, 10, 2.5, "many", None, math.nan]),
        ("weight", "numbers from 0 to 1", [1.01, -0.01, None, "none", math.nan, [0.5]]),
        ("delta", "numbers from -5 to 5, or none", [5.5, "low"]),
        ("strict", "true or false", ["maybe", 2]),
        ("mode", "one of fast, slow", ["Fast", None]),
        ("sure", "numbers from 0 to 1, or none", [1.5]),
    ],
)
def test_refuses_by_name_value_and_bounds(name, bounds, values):
    program = Sure()
    before = program.values()
    for value in values:
        for attempt in (Sure, program.configure, lambda **values: setattr(program, *values.popitem())):
            with pytest.raises(ValueOutOfBounds) as refused:
                attempt(**({"tries": 5} if attempt == program.configure else {}) | {name: value})
            assert str(refused.value) == f"{name}={value!r} is out of bounds: it takes {bounds}"
    assert program.values() == before


def test_a_threshold_turns_a_yes_into_a_probability_and_back():
    program = Sure()
    for threshold, said, answer in (
        (None, "True", "Oslo"),
        (0.7, '{"noul": 0.71}', "Oslo"),
        (0.7, '{"noul": 0.69}', "unknown"),
        (0.7, "80%", "Oslo"),
        (0.7, "Yes.", "Oslo"),
        (0.6, "surely", "unknown"),  # an unreadable probability counts as no
        (None, "True", "Oslo"),
    ):
        program.sure = threshold
        assert play(program, "Which capital?", gate={"knows": said})[0].answer == answer
        assert program.gate.fields == ({} if threshold is None else {"knows": {"threshold": threshold}})
