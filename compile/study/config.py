"""The settings of a study: what it searches over, how long, and where it is kept."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from knowgap.compiling.settings import Settings
from knowgap.errors import UnknownName
from knowgap.lms.metering import Usage
from knowgap.programs.base import Program


def _names(given: Any) -> Any:
    """Names, which the command line passes with commas between them."""
    return [name.strip() for name in given.split(",")] if isinstance(given, str) else given


def _bounds(given: Any) -> Any:
    """The bounds of a range, which the command line passes as a text such as 1:10."""
    if isinstance(given, str) and given.count(":") != 1:
        raise ValueError("write it as LOW:HIGH, such as 1:10")
    return tuple(given.split(":")) if isinstance(given, str) else given


class StudyConfig(Settings, frozen=True):
    """How a study searches, and when it ends; None means no limit.

    Limits are looked at between trials: a trial that has begun is finished.

    Attributes:
        n_trials: the number of finished trials (complete or stopped early) at which the study ends.
        storage: a SQLite file, or a database URL; by default it is kept in memory. There it has the program's name.
        demos: whether trials choose demonstrations: "none" leaves those of the program alone, and "auto" searches
            unless the embedded reader answers, which ignores demonstrations.
        hold_out: how many dev questions it does not see, on which `compile` tests its choice; see
            `knowgap.compiling.hold_out.split_off`. With 0, the choice is not tested.
        tolerance: the cheapest trial is chosen of those whose score is at most this much below the best.
        prune: stop a trial early if it is probably worse than the best one, question by question.
        include: search over these hyperparameters only; None for all that are declared to be tuned.
        ranges: (low, high) for numbers by name, instead of the declared search ranges.
        heartbeat: seconds between the heartbeats of a running trial; one that misses two is run again.
        max_calls: limit on the calls that reach the language model, over the whole study.
        max_money: limit on the price of these calls in US dollars, for models whose prices DSPy knows.
    """

    what: ClassVar[str] = "setting of a study"

    n_trials: int = Field(default=20, ge=1)
    storage: str | Path | None = None
    demos: Literal["auto", "none"] = "auto"
    hold_out: int | None = Field(default=None, ge=0)
    tolerance: float = Field(default=0.0, ge=0, le=1)
    prune: bool = True
    include: Annotated[list[str] | None, BeforeValidator(_names)] = None
    ranges: dict[str, Annotated[tuple[float, float], BeforeValidator(_bounds)]] = Field(default={})
    heartbeat: int = Field(default=60, ge=1)
    max_calls: int | None = Field(default=None, ge=0)
    max_money: float | None = Field(default=None, ge=0)

    def check_names(self, *programs: Program) -> None:
        """Raise `UnknownName` for a hyperparameter that none of the programs has."""
        known = {name for program in programs for name in program.hyperparameters()}
        for name in [*(self.include or ()), *self.ranges]:
            if name not in known:
                raise UnknownName.among(f"hyperparameter of {', '.join(each.name for each in programs)}", name, known)

    def half_for(self, program: Program) -> StudyConfig:
        """The settings of the study of one of two programs: half of the trials and limits, and its own names."""
        declared = program.hyperparameters()
        halves: dict[str, Any] = {
            name: math.ceil(limit / 2) if isinstance(limit, int) else limit / 2
            for name in ("n_trials", "max_calls", "max_money")
            if (limit := getattr(self, name)) is not None
        }
        halves["include"] = self.include and [name for name in self.include if name in declared]
        halves["ranges"] = {name: range for name, range in self.ranges.items() if name in declared}
        return self.model_copy(update=halves)

    def exceeded(self, spent: Usage) -> str:
        """Which limit is reached, in words; empty if none is. A call that nobody counted is one call of no price."""
        if self.max_calls is not None and spent.calls + spent.uncounted_calls >= self.max_calls:
            return f"limit of {self.max_calls} calls"
        if self.max_money is not None and spent.money >= self.max_money:
            return f"limit of {self.max_money:g} US dollars"
        return ""
