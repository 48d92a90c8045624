"""A trained model, and how it compares with others on questions that are not trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import dspy
from pydantic import BaseModel

from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.evaluation.metrics.normalize import normalize_answer
from knowgap.compiling.evaluation.statistics import Comparison, Interval, mean_interval, paired_comparison
from knowgap.compiling.training.fit import Job, TrainingResult, fit
from knowgap.errors import UsageError
from knowgap.storage.processes import is_main_process
from knowgap.storage.progress import Progress

Values = Mapping[str, Mapping[str, Sequence[float]]]
"""By model and metric, the value of every question; the main metric comes first."""


class ModelScores(BaseModel, extra="forbid"):
    """The scores of a model.

    Attributes:
        means: the mean over the questions by metric, the main one first.
        comparison: the comparison with the first model by the main metric; None for the first model itself.
    """

    means: dict[str, Interval]
    comparison: Comparison | None = None


@dataclass(frozen=True)
class Trained:
    """A trained model.

    Attributes:
        training: the result of the training.
        scores: the scores, by name, of the trained model and of what it is compared with, all on questions that are not
            trained on; empty if nothing was measured.
        notes: what the examples were made of, in words.
    """

    training: TrainingResult
    scores: dict[str, ModelScores]
    notes: list[str]


def train(
    job: Job, measure: Callable[[], Values] | None, *, notes: Sequence[str] = (), progress: Progress | None = None
) -> Trained:
    """Run a training, and then measure the models, in the main process only."""
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


def held_out_questions(data: Dataset, split: str, limit: int | None) -> list[dspy.Example]:
    """The questions of a split that are not in the split `train`, ignoring case and punctuation.

    There are none if the split is called `none`.

    Raises:
        UsageError: every question is in the split `train`.
    """
    if split == "none":
        return []
    known = {normalize_answer(example.question) for example in data.splits["train"]}
    found = [example for example in data.questions(split, limit) if normalize_answer(example.question) not in known]
    if not found:
        raise UsageError(f"every question of the split {split!r} is in the split 'train', too")
    return found
