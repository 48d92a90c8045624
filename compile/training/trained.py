"""A trained model, and how it compares with others on questions that are not trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from knowgap.compiling.evaluation.statistics import Comparison, Interval, mean_interval, paired_comparison
from knowgap.compiling.training.fit import Job, TrainingResult, fit
from knowgap.storage.processes import is_main_process
from knowgap.storage.progress import Progress

Values = Mapping[str, Mapping[str, Sequence[float]]]
"""By model and metric, the value of every question; the main metric comes first."""


class ModelScores(BaseModel, extra="forbid"):
    """How well a model does.

    Attributes:
        means: by metric, the main one first, the mean over the questions.
        comparison: the main metric against that of the first model; None for the first model itself.
    """

    means: dict[str, Interval]
    comparison: Comparison | None = None


@dataclass(frozen=True)
class Trained:
    """A trained model.

    Attributes:
        training: what the training did.
        scores: by name, the trained model, the one before the training, and what needs neither, all on questions that
            are not trained on; empty where nothing was measured.
        notes: what the examples were made of, in words.
    """

    training: TrainingResult
    scores: dict[str, ModelScores]
    notes: list[str]


def train(
    job: Job, measure: Callable[[], Values] | None, *, notes: Sequence[str] = (), progress: Progress | None = None
) -> Trained:
    """Run a training; then measure what it brought, in the process that writes files."""
    result = fit(job, progress)
    scores = compare_models(measure()) if measure is not None and is_main_process() else {}
    return Trained(result, scores, list(notes))


def compare_models(values: Values) -> dict[str, ModelScores]:
    """The means of several models on the same questions; each but the first is also tested against the first."""
    first = next(iter(values.values()))
    main = next(iter(first))
    return {
        name: ModelScores(
            means={metric: mean_interval(list(scores)) for metric, scores in by_metric.items()},
            comparison=None if by_metric is first else paired_comparison(main, first[main], by_metric[main]),
        )
        for name, by_metric in values.items()
    }
