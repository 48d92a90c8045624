"""What an evaluation found, with its intervals, and how two of them compare."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, ValidationError

from knowgap.compile.evaluation.provenance import Provenance
from knowgap.compile.evaluation.runner import Record
from knowgap.errors import DataError, UnknownName, UsageError
from knowgap.retrieval.index.files import write_file

__all__ = ["COSTS", "Comparison", "Evaluation", "Interval", "compare", "mean_interval", "paired"]

_RESAMPLES = 10_000
_CONFIDENCE = 0.95

COSTS: dict[str, Callable[[Record], float]] = {
    "lm_calls": lambda r: r.cost.lm_calls,
    "cached_calls": lambda r: r.cost.cached_calls,
    "tokens": lambda r: r.cost.prompt_tokens + r.cost.completion_tokens,
    "prompt_tokens": lambda r: r.cost.prompt_tokens,
    "completion_tokens": lambda r: r.cost.completion_tokens,
    "retrievals": lambda r: r.cost.retrievals,
    "passages": lambda r: r.cost.passages,
    "knowledge_tokens": lambda r: r.cost.knowledge_tokens,
    "iterations": lambda r: r.cost.iterations,
    "seconds": lambda r: r.cost.seconds,
    "critical_calls": lambda r: r.cost.critical_calls,
}
"""What a question can cost, by name: see `knowgap.programs.trace.trace.Cost`; `tokens` counts prompt and completion."""


class Interval(BaseModel):
    """A mean with its 95% bootstrap interval over `n` questions."""

    model_config = ConfigDict(extra="forbid")

    mean: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


class Comparison(BaseModel):
    """After minus before, question by question.

    Attributes:
        metric: what was compared.
        difference: mean of the differences.
        low: lower end of its 95% bootstrap interval.
        high: upper end.
        p_value: of a paired permutation test, two-sided.
        wins: questions on which `after` scores higher.
        losses: questions on which it scores lower.
        ties: the rest.
        n: number of questions.
    """

    model_config = ConfigDict(extra="forbid")

    metric: str
    difference: float
    low: float
    high: float
    p_value: float
    wins: int
    losses: int
    ties: int
    n: int

    def __str__(self) -> str:
        return (
            f"{self.metric} {self.difference:+.3f} [{self.low:+.3f}, {self.high:+.3f}], p = {self.p_value:.3f}, "
            f"{self.wins} better, {self.losses} worse, {self.ties} equal"
        )


class Evaluation(BaseModel):
    """Every question with its scores and its cost, in the order of the data.

    Attributes:
        records: one for each question, failed ones included.
        metrics: names of the metrics that were asked for, the main one first.
        provenance: where the result comes from.
    """

    model_config = ConfigDict(extra="forbid")

    records: list[Record]
    metrics: list[str]
    provenance: Provenance

    @property
    def failures(self) -> list[Record]:
        """The questions on which the program failed; they count, with score 0."""
        return [record for record in self.records if record.error]

    @property
    def all_metrics(self) -> list[str]:
        """The metrics that were asked for, and what was measured besides (`recall@k`)."""
        return list(dict.fromkeys([*self.metrics, *(name for r in self.records for name in r.scores)]))

    def scores(self, metric: str | None = None) -> dict[str, float]:
        """Score by question id, for the questions for which the metric is defined; the main metric where absent.

        Raises:
            UnknownName: nothing was scored by that metric.
        """
        name = metric or self.metrics[0]
        found = {r.id: score for r in self.records if (score := r.scores.get(name)) is not None}
        if not found:
            raise UnknownName.among("metric of this evaluation", name, self.all_metrics)
        return found

    def mean(self, metric: str | None = None) -> float:
        """The mean score over all questions for which the metric is defined, failed ones included."""
        return float(np.mean(list(self.scores(metric).values())))

    def interval(self, metric: str | None = None) -> Interval:
        """The mean with its 95% bootstrap interval (percentiles of 10,000 resamples, seeded)."""
        return mean_interval(list(self.scores(metric).values()), self.provenance.seed)

    def costs(self) -> dict[str, float]:
        """What a question cost on average, by the names of `COSTS`; over the questions that were answered."""
        asked = [r for r in self.records if not r.error] or self.records
        return {name: float(np.mean([read(r) for r in asked])) for name, read in COSTS.items()}

    def by_type(self, metric: str | None = None) -> dict[str, Interval]:
        """The mean by type of question, in alphabetical order of the types."""
        groups: dict[str, list[float]] = defaultdict(list)
        types = {record.id: record.type for record in self.records}
        for question, score in self.scores(metric).items():
            groups[types[question]].append(score)
        return {kind: mean_interval(groups[kind], self.provenance.seed) for kind in sorted(groups)}

    def summary(self) -> dict[str, Any]:
        """Scores with intervals, costs, failures and split: what is written beside a compiled program."""
        return {
            "split": self.provenance.split,
            "questions": len(self.records),
            "failed": len(self.failures),
            "scores": {name: self.interval(name).model_dump() for name in self.all_metrics if self._defined(name)},
            "costs": self.costs(),
            "data": self.provenance.data,
            "state": self.provenance.state,
            "lm": self.provenance.lm,
        }

    def _defined(self, metric: str) -> bool:
        return any(record.scores.get(metric) is not None for record in self.records)

    def save(self, path: str | Path) -> Path:
        """Write everything as JSON; the file is complete or not there."""
        return write_file(path, self.model_dump_json(indent=1))

    @classmethod
    def load(cls, path: str | Path) -> Evaluation:
        """Read what `save` wrote.

        Raises:
            DataError: the file is absent or not an evaluation.
        """
        try:
            return cls.model_validate_json(Path(path).read_bytes())
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", path=path) from None
        except ValidationError as error:
            problem = error.errors()[0]
            raise DataError(f"not an evaluation saved by knowgap: {problem['msg']}", path=path) from None


def mean_interval(values: list[float], seed: int = 0) -> Interval:
    """The mean of values with its 95% bootstrap interval (percentile method, scipy)."""
    data = np.asarray(values, dtype=float)
    mean = float(data.mean())
    low, high = (mean, mean) if data.size < 2 or np.ptp(data) == 0 else _bootstrap(data, seed)
    return Interval(mean=mean, low=low, high=high, n=int(data.size))


def _bootstrap(data: npt.NDArray[np.float64], seed: int) -> tuple[float, float]:
    from scipy.stats import bootstrap

    result = bootstrap(
        (data,),
        np.mean,
        n_resamples=_RESAMPLES,
        batch=max(1, 1_000_000 // data.size),
        confidence_level=_CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    interval = cast("Any", result).confidence_interval
    return float(interval.low), float(interval.high)


def compare(before: Evaluation, after: Evaluation, metric: str | None = None) -> Comparison:
    """Compare two evaluations of the same questions, pair by pair.

    Args:
        before: the one that is measured against.
        after: the one whose gain or loss is wanted.
        metric: the main metric of `before` where absent.

    Raises:
        UsageError: the questions differ.
    """
    name = metric or before.metrics[0]
    left, right = before.scores(name), after.scores(name)
    if left.keys() != right.keys():
        only = sorted(left.keys() ^ right.keys())
        raise UsageError(
            f"only evaluations of the same questions can be compared: {len(only)} questions stand in one alone, "
            f"such as {only[0]!r}"
        )
    asked = {record.id: record.question for record in before.records}
    for record in after.records:
        if record.id in left and asked[record.id] != record.question:
            raise UsageError(f"only evaluations of the same questions can be compared: {record.id!r} differs")
    return paired(name, list(left.values()), [right[key] for key in left], after.provenance.seed)


def paired(metric: str, before: Sequence[float], after: Sequence[float], seed: int = 0) -> Comparison:
    """Compare two lists of scores of the same questions in the same order.

    The interval is a 95% bootstrap interval of the mean difference; the p-value is that of a two-sided permutation test
    that swaps the two scores of a question (exact where there are few questions, else 10,000 draws).
    """
    from scipy.stats import permutation_test

    x, y = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    gain = y - x
    interval = mean_interval(gain.tolist(), seed)
    p_value = 1.0
    if np.any(gain):
        test = permutation_test(
            (y, x),
            lambda a, b, axis: np.mean(a - b, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=_RESAMPLES,
            batch=max(1, 1_000_000 // gain.size),
            rng=np.random.default_rng(seed),
        )
        p_value = float(cast("Any", test).pvalue)
    return Comparison(
        metric=metric,
        difference=interval.mean,
        low=interval.low,
        high=interval.high,
        p_value=p_value,
        wins=int((gain > 0).sum()),
        losses=int((gain < 0).sum()),
        ties=int((gain == 0).sum()),
        n=int(gain.size),
    )
