"""Demonstrations to choose from: bootstrapped once, cut into sets, kept with the study."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import dspy
from pydantic import BaseModel, ConfigDict

from knowgap.compile.evaluation.provenance import state_of
from knowgap.programs.base import Program

__all__ = ["DemonstrationPool"]

P = TypeVar("P", bound=Program)


class DemonstrationPool(BaseModel):
    """Demonstration sets by predictor.

    Set 0 is empty. Set 1 holds the program's own demonstrations where it has any. The others are drawn from what was
    bootstrapped.

    Attributes:
        sets: sets of demonstrations (JSON values by field) by predictor name.
        own: number of the set that the program came with, by predictor.
    """

    model_config = ConfigDict(extra="forbid")

    sets: dict[str, list[list[dict[str, Any]]]] = {}
    own: dict[str, int] = {}

    @classmethod
    def draw(
        cls, program: Program, bootstrapped: Program | None, *, num_sets: int = 6, max_demos: int = 4, seed: int = 0
    ) -> DemonstrationPool:
        """Cut what was bootstrapped into sets.

        Args:
            program: the program as it came, with its own demonstrations.
            bootstrapped: the same program with all the demonstrations that there are.
            num_sets: sets to choose from for each predictor at most, the empty one included.
            max_demos: demonstrations in a set at most.
            seed: of the draws.
        """
        rng = random.Random(seed)
        found = _demonstrations(bootstrapped) if bootstrapped is not None else {}
        sets: dict[str, list[list[dict[str, Any]]]] = {}
        own: dict[str, int] = {}
        for name, mine in _demonstrations(program).items():
            pool = found.get(name, [])
            options: list[list[dict[str, Any]]] = [[]]
            own[name] = 0
            if mine:
                options.append(mine)
                own[name] = 1
            if pool:
                options.append(pool[:max_demos])
            for _ in range(4 * num_sets):  # small pools give the same set again and again
                if len(options) >= num_sets or not pool:
                    break
                size = rng.randint(1, min(max_demos, len(pool)))
                drawn = [pool[i] for i in sorted(rng.sample(range(len(pool)), size))]
                if drawn not in options:
                    options.append(drawn)
            if len(options) > 1:
                sets[name] = [option for n, option in enumerate(options) if option not in options[:n]]
        return cls(sets=sets, own={name: own[name] for name in sets})

    @property
    def sizes(self) -> dict[str, int]:
        """How many sets there are, by predictor."""
        return {name: len(options) for name, options in self.sets.items()}

    @property
    def bootstrapped(self) -> dict[str, int]:
        """The first set that was bootstrapped, by predictor; the program's own where there is none."""
        first = {name: own + 1 for name, own in self.own.items()}
        return {name: first[name] if first[name] < len(self.sets[name]) else self.own[name] for name in self.sets}

    def apply(self, program: P, chosen: Mapping[str, int]) -> P:
        """Give a program the chosen set of every predictor, and return it."""
        predictors = dict(program.named_predictors())
        for name, number in chosen.items():
            demos = [dspy.Example(**demo) for demo in self.sets[name][number]]
            cast("Any", predictors[name]).demos = demos
        return program

    def pieces(self, size: int = 20_000) -> list[str]:
        """The pool as JSON, in pieces that any database column takes; `join` is the inverse."""
        text = json.dumps(self.model_dump())
        return [text[start : start + size] for start in range(0, len(text), size)]

    @classmethod
    def join(cls, pieces: Sequence[str]) -> DemonstrationPool:
        """Put together what `pieces` cut."""
        return cls.model_validate_json("".join(pieces))


def _demonstrations(program: Program) -> dict[str, list[dict[str, Any]]]:
    """Demonstrations by predictor, as the JSON values that DSPy would save."""
    return {name: part["demos"] for name, part in state_of(program).items() if "demos" in part}
