"""The demonstration sets that trials of a study choose from: bootstrapped once, saved with the study."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import dspy
from pydantic import BaseModel

from knowgap.compiling.demonstrations.excerpts import with_excerpts
from knowgap.compiling.evaluation.provenance import state_of
from knowgap.lms.metering import Usage
from knowgap.programs.base import Program

P = TypeVar("P", bound=Program)
Demos = list[dict[str, Any]]

NUM_SETS = 6
"""The most demonstration sets for each predictor, the empty one included."""
MAX_DEMOS = 4
"""The most demonstrations in a set that is drawn."""


class DemoSets(BaseModel, extra="forbid"):
    """Demonstration sets by predictor.

    Set 0 is empty. Set 1 holds the program's own demonstrations if it has any. The others are drawn from those that
    were bootstrapped.

    Attributes:
        sets: sets of demonstrations (JSON values by field) by predictor name.
        own: number of the set that the program came with, by predictor.
        spent: what bootstrapping cost.
    """

    sets: dict[str, list[Demos]] = {}
    own: dict[str, int] = {}
    spent: Usage = Usage()

    @classmethod
    def draw(cls, program: Program, bootstrapped: Program | None, *, seed: int = 0) -> DemoSets:
        """Draw sets for a program from the demonstrations of its bootstrapped copy, if there is one.

        Each predictor gets at most `NUM_SETS` sets, the empty one included; drawn sets have at most `MAX_DEMOS`
        demonstrations. Of the longer passages in these, they show excerpts.
        """
        rng = random.Random(seed)
        available: dict[str, Demos] = {}
        if bootstrapped is not None:
            outputs = {name: cast("Any", p).signature.output_fields for name, p in bootstrapped.named_predictors()}
            for name, demos in _demos(bootstrapped).items():
                available[name] = [with_excerpts(demo, outputs[name]) for demo in demos]
        sets: dict[str, list[Demos]] = {}
        own: dict[str, int] = {}
        for name, demos in _demos(program).items():
            options: list[Demos] = [[], demos] if demos else [[]]
            _add_draws(options, available.get(name, []), rng)
            if len(options) > 1:
                sets[name], own[name] = options, int(bool(demos))
        return cls(sets=sets, own=own)

    @property
    def sizes(self) -> dict[str, int]:
        """How many sets there are, by predictor."""
        return {name: len(options) for name, options in self.sets.items()}

    @property
    def bootstrapped(self) -> dict[str, int]:
        """The first bootstrapped set by predictor; the program's own if there is none."""
        return {name: own + 1 if own + 1 < len(self.sets[name]) else own for name, own in self.own.items()}

    def apply(self, program: P, chosen: Mapping[str, int]) -> P:
        """Give a program the chosen set of every predictor, and return it; set 0 is empty whatever sets there are."""
        predictors = dict(program.named_predictors())
        for name, number in chosen.items():
            demos = self.sets[name][number] if number else []
            cast("Any", predictors[name]).demos = [dspy.Example(**demo) for demo in demos]
        return program


def _demos(program: Program) -> dict[str, Demos]:
    """Demonstrations by predictor, as the JSON values that DSPy would save."""
    return {name: part["demos"] for name, part in state_of(program).items() if "demos" in part}


def _add_draws(options: list[Demos], available: Demos, rng: random.Random) -> None:
    """Add the first available demonstrations as a set, then random subsets in their order; no set is added twice."""
    drawn = available[:MAX_DEMOS]
    for _ in range(4 * NUM_SETS if available else 0):  # few demonstrations may not give enough different sets
        if drawn not in options and len(options) < NUM_SETS:
            options.append(drawn)
        size = rng.randint(1, min(MAX_DEMOS, len(available)))
        drawn = [available[place] for place in sorted(rng.sample(range(len(available)), size))]
