"""The settings of a study: how it searches, how many demonstrations it makes, and when it ends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

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
from knowgap.lms.metering import Prices, Usage, dollars, token_prices

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


class StudyConfig(BaseModel):
    """How a study searches, and when it ends; None means no limit.

    Attributes:
        mode: "single" maximises the score; "pareto" also minimises the cost, and stops no trial early.
        cost: what counts as cost, by the names of `knowgap.compiling.evaluation.costs.COSTS`.
        costs: further costs that "pareto" minimises, by the same names.
        rule: which trial is chosen; see `knowgap.compiling.study.trials.choose`.
        max_calls_per_question: an upper bound on every program's hyperparameter `max_calls`: the most calls of the
            language model per question, cached ones included.
        max_cost_per_question: US dollars that a question may cost on average, by `prices` or DSPy's table; more
            expensive trials are not chosen, and are stopped once they are certain to exceed it.
        prune: stop a trial early if it can be expected to gain less than 0.01 over the best one; see
            `knowgap.compiling.study.pruning`.
        include: search over these hyperparameters only; None for all that are declared to be tuned.
        exclude: leave these hyperparameters alone.
        ranges: (low, high) for numbers by name; they may be narrower or wider than the declared search ranges, but must
            be within the bounds.
        start: hyperparameters to try early, as mappings from name to value.
            In a study of several programs, names of hyperparameters in `include`, `exclude`, `ranges` and `start` begin
            with that of the program: `migres.top_k`.
        reuse: reuse answers of the language model, retrieved lists, and scores of the reranker and entailment model; a
            language model that samples is then asked only once for each prompt.
        cache_dir: the folder in which other processes share them; None keeps them in memory and in DSPy's cache.
        heartbeat: seconds between the heartbeats of a trial in a database; after four missed ones it is run again.
        num_sets: the most demonstration sets for each predictor, the empty one included.
        max_demos: the most demonstrations in a set.
        max_calls: limit on the calls that reach the language model, over the whole study.
        max_tokens: limit on the prompt and completion tokens of these calls.
        max_money: limit on the price of these calls in US dollars.
        timeout: limit on the wall time of this call in seconds.
        prices: US dollars per million prompt and completion tokens, for a model whose price DSPy does not know.

    Raises:
        UnknownName: no such setting or cost.
        UsageError: a value that does not fit.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Literal["single", "pareto"] = "single"
    cost: str = "lm_calls"
    costs: list[str] = []
    rule: str = "best"
    max_calls_per_question: int | None = Field(default=None, ge=1)
    max_cost_per_question: float | None = Field(default=None, ge=0)
    prune: bool = True
    include: list[str] | None = None
    exclude: list[str] = []
    ranges: dict[str, tuple[float, float]] = {}
    start: list[dict[str, Any]] = []
    reuse: bool = True
    cache_dir: Path | None = None
    heartbeat: int = Field(default=15, ge=1)
    num_sets: int = Field(default=6, ge=1)
    max_demos: int = Field(default=4, ge=1)
    max_calls: int | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=0)
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
        for name in (config.cost, *config.costs):
            if name not in COSTS:
                raise UnknownName.among("cost", name, COSTS)
        if config.costs and (config.mode == "single" or len({config.cost, *config.costs}) <= len(config.costs)):
            raise UsageError(
                f"costs={config.costs} needs mode='pareto', and costs other than cost={config.cost}, each named once"
            )
        parse_rule(config.rule)
        timed = "seconds" in config.minimized or (config.cost == "seconds" and config.rule != "best")
        if timed and config.reuse:
            raise UsageError("seconds mean nothing if answers are reused: set reuse=False, or cost='critical_calls'")
        return config

    @property
    def prunes(self) -> bool:
        """Whether trials may be stopped early."""
        return self.prune and self.mode == "single"

    @property
    def minimized(self) -> list[str]:
        """The names of the costs that are objectives beside the score."""
        return [self.cost, *self.costs] if self.mode == "pareto" else []

    @property
    def limits_spending(self) -> bool:
        """Whether there is a limit on what all processes together spend."""
        return not (self.max_calls is None and self.max_tokens is None and self.max_money is None)

    @property
    def needs_counts(self) -> bool:
        """Whether a limit or an objective depends on what the language model's calls cost."""
        limited = self.limits_spending or self.max_cost_per_question is not None
        return limited or not METERED.isdisjoint(self.minimized)

    def of_program(self, prefix: str) -> StudyConfig:
        """The settings of the program whose hyperparameters' names begin with `prefix`, which is removed."""

        def own(names: Mapping[str, T]) -> dict[str, T]:
            return {name.removeprefix(prefix): value for name, value in names.items() if name.startswith(prefix)}

        return self.model_copy(
            update={
                "include": None if self.include is None else [*own(dict.fromkeys(self.include))],
                "exclude": [*own(dict.fromkeys(self.exclude))],
                "ranges": own(self.ranges),
                "start": [values for start in self.start if (values := own(start))],
            }
        )

    def named(self) -> set[str]:
        """The names of all hyperparameters that the settings mention."""
        return {*(self.include or ()), *self.exclude, *self.ranges, *(name for start in self.start for name in start)}

    def with_prices(self, lm: str) -> StudyConfig:
        """The settings with the prices of the language model of that name, unless they name some.

        Raises:
            UsageError: money is limited, and the prices are not known.
        """
        prices = self.prices or token_prices(lm)
        limit = self.max_money if self.max_money is not None else self.max_cost_per_question
        if limit is not None and prices is None:
            raise UsageError(
                f"a limit of {limit:g} US dollars needs prices, and those of {lm} are not known: name them, in "
                "US dollars per million prompt and completion tokens (--prices IN,OUT)"
            )
        return self.model_copy(update={"prices": prices})

    def exceeded(self, spent: Usage, seconds: float) -> str:
        """Which limit of the whole study is reached, in words; empty if none is."""
        for what, limit, used in (
            ("calls", self.max_calls, spent.calls),
            ("tokens", self.max_tokens, spent.tokens),
            ("US dollars", self.max_money, spent.money),
            ("seconds", self.timeout, seconds),
        ):
            if limit is not None and used >= limit:
                return f"limit of {limit:g} {what}"
        return ""

    def price(self, costs: Mapping[str, float | None]) -> float:
        """What a question costs on average in US dollars, by `prices`; infinite if that is not known."""
        read, written = costs["prompt_tokens"], costs["completion_tokens"]
        if self.prices is None or read is None or written is None:
            return math.inf
        return dollars(read, written, self.prices)

    def permits(self, costs: Mapping[str, float | None], share: float = 1.0) -> bool:
        """Whether mean costs per question are within the limit, if there is one.

        They were measured on a `share` of all questions; the others are assumed to cost nothing.
        """
        limit = self.max_cost_per_question
        return limit is None or self.price(costs) * share <= limit + 1e-12

    def identity(self) -> dict[str, Any]:
        """The settings that must be the same for a study to be continued, as JSON values."""
        names = {"mode", "include", "exclude", "ranges", "start", "num_sets", "max_demos"}
        fields = self.model_dump(mode="json", include=names)
        first, *others = self.minimized or [""]
        return {**fields, "prune": self.prunes, "cost": first, **({"costs": others} if others else {})}


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
