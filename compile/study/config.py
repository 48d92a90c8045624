"""The settings of a study: what it searches over, how long, and where it is kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    field_validator,
    model_validator,
)

from knowgap.compiling.evaluation.costs import COSTS, METERED
from knowgap.errors import UnknownName, UsageError
from knowgap.lms.metering import Prices, Usage, token_prices
from knowgap.programs.base import Program

if TYPE_CHECKING:
    from typing_extensions import Self


class StudyConfig(BaseModel):
    """How a study searches, and when it ends; None means no limit.

    Attributes:
        n_trials: the number of finished trials (complete or stopped early) at which the study ends.
        name: the name under which it is kept; by default that of the program.
        storage: a SQLite file (`.db`), a database URL, or a storage of Optuna's; by default it is kept in memory.
        demos: whether trials choose demonstrations: "search", "none" (those of the program are left alone), or "auto"
            (they do, unless the embedded reader answers, which ignores demonstrations).
        hold_out: how many dev questions it does not see, on which `compile` tests its choice; see
            `knowgap.compiling.hold_out.split_off`. With 0, the choice is not tested.
        costs: costs that are minimized besides the score, by the names of `knowgap.compiling.evaluation.costs.COSTS`.
            A study of several objectives stops no trial early.
        rule: which trial is chosen; see `knowgap.compiling.study.result.choose`.
        prune: stop a trial early if it can be expected to gain little over the best one.
        include: search over these hyperparameters only; None for all that are declared to be tuned.
        exclude: leave these hyperparameters alone.
        ranges: (low, high) for numbers by name, instead of the declared search ranges.
        max_demos: the most demonstrations in a set.
        reuse: reuse answers of the language model, retrieved lists and scores of other models; a language model that
            samples is then asked only once for each prompt.
        heartbeat: seconds between the heartbeats of a running trial; one that misses two is run again.
        max_calls: limit on the calls that reach the language model, over the whole study.
        max_money: limit on the price of these calls in US dollars.
        timeout: limit on the wall time of one call of `compile` in seconds.
        prices: US dollars per million prompt and completion tokens, for a model whose price DSPy does not know.

    Raises:
        UnknownName: no such setting or cost.
        UsageError: a value that does not fit.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    n_trials: int = Field(default=20, ge=1)
    name: str = ""
    storage: Any = None
    demos: Literal["auto", "search", "none"] = "auto"
    hold_out: int | None = Field(default=None, ge=0)
    costs: list[str] = []
    rule: str = "best"
    prune: bool = True
    include: list[str] | None = None
    exclude: list[str] = []
    ranges: dict[str, tuple[float, float]] = {}
    max_demos: int = Field(default=4, ge=1)
    reuse: bool = True
    heartbeat: int = Field(default=60, ge=1)
    max_calls: int | None = Field(default=None, ge=0)
    max_money: float | None = Field(default=None, ge=0)
    timeout: float | None = Field(default=None, gt=0)
    prices: Prices | None = None

    @field_validator("include", "exclude", "costs", mode="before")
    @classmethod
    def _split(cls, names: Any) -> Any:
        """Split names with commas between them, as the command line passes them."""
        return [name.strip() for name in names.split(",")] if isinstance(names, str) else names

    @model_validator(mode="wrap")
    @classmethod
    def _check(cls, values: Any, check: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            config = check(values)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"])
            if first["type"] == "extra_forbidden":
                raise UnknownName.among("setting of a study", name, cls.model_fields) from error
            raise UsageError(f"StudyConfig: {name}={first['input']!r}: {first['msg']}") from error
        for cost in config.costs:
            if cost not in COSTS:
                raise UnknownName.among("cost", cost, COSTS)
        parse_rule(config.rule)
        if config.cost == "seconds" and config.reuse:
            raise UsageError("seconds mean nothing if answers are reused: set reuse=False, or name critical_calls")
        return config

    @property
    def cost(self) -> str:
        """The cost by which a rule chooses, and by which equal trials are ordered."""
        return self.costs[0] if self.costs else "lm_calls"

    @property
    def needs_counts(self) -> bool:
        """Whether a limit or an objective depends on what the language model's calls cost."""
        limited = self.max_calls is not None or self.max_money is not None
        return limited or not METERED.isdisjoint(self.costs)

    def with_prices(self, lm: str) -> StudyConfig:
        """The settings with the prices of the language model of that name, unless they name some.

        Raises:
            UsageError: money is limited, and the prices are not known.
        """
        prices = self.prices or token_prices(lm)
        if self.max_money is not None and prices is None:
            raise UsageError(
                f"a limit of {self.max_money:g} US dollars needs prices, and those of {lm} are not known: name them, "
                "in US dollars per million prompt and completion tokens, with StudyConfig(prices=(IN, OUT))"
            )
        return self.model_copy(update={"prices": prices})

    def of_program(self, program: Program, of: int) -> StudyConfig:
        """The settings of a program's study, one of several that share the trials and the limits.

        Hyperparameters that are named, but that the program does not have, are those of others.
        """
        declared = program.hyperparameters()
        shared: dict[str, Any] = {
            "name": f"{self.name}-{program.name}" if self.name else "",
            "n_trials": math.ceil(self.n_trials / of),
            "include": self.include and [name for name in self.include if name in declared],
            "exclude": [name for name in self.exclude if name in declared],
            "ranges": {name: range for name, range in self.ranges.items() if name in declared},
        }
        if self.max_calls is not None:
            shared["max_calls"] = self.max_calls // of
        for name in ("max_money", "timeout"):
            if getattr(self, name) is not None:
                shared[name] = getattr(self, name) / of
        return self.model_copy(update=shared)

    def exceeded(self, spent: Usage, seconds: float) -> str:
        """Which limit of the whole study is reached, in words; empty if none is."""
        for what, limit, used in (
            ("calls", self.max_calls, spent.calls),
            ("US dollars", self.max_money, spent.money),
            ("seconds", self.timeout, seconds),
        ):
            if limit is not None and used >= limit:
                return f"limit of {limit:g} {what}"
        return ""

    def identity(self) -> Mapping[str, Any]:
        """The settings that must be the same for a study to be continued, as JSON values."""
        names = {"costs", "prune", "include", "exclude", "ranges", "max_demos"}
        return self.model_dump(mode="json", include=names)


def parse_rule(rule: str) -> tuple[str, float]:
    """Split a rule into "best", "within" or "under", and its number; `UsageError` for another rule."""
    kind, _, amount = rule.strip().partition(" ")
    if kind == "best" and not amount:
        return kind, 0.0
    try:
        number = float(amount)
    except ValueError:
        number = -1.0
    if kind not in ("within", "under") or not number >= 0:
        raise UsageError(
            f"rule {rule!r}: must be best, within X (X below the best score) or under X (cost per question)"
        )
    return kind, number
