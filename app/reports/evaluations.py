"""Evaluations as pages show them: read from their files, and grouped by the questions they asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from knowgap.compiling.evaluation.results import Evaluation, Evaluations
from knowgap.compiling.evaluation.runner import QuestionRecord
from knowgap.reports.tables import Table, score_tables

_SPLITS = ("test", "dev", "train", "")
_MOST_QUESTIONS = 500
Source = str | Path | Evaluation | Mapping[str, Evaluation]


def read_evaluations(source: Source) -> Evaluations:
    """The evaluations of a source by label; errors are those of `Evaluations.load`."""
    if isinstance(source, Evaluation):
        return Evaluations({source.provenance.program or "evaluation": source})
    return Evaluations(source) if isinstance(source, Mapping) else Evaluations.load(source)


@dataclass(frozen=True)
class Question:
    """A question with its records by label of the evaluation, and its scores by the main metric.

    `kinds` are the filters that it passes; `difference` is the second minus the first score if there are two, or 0.
    """

    records: dict[str, QuestionRecord]
    scores: list[float | None]
    kinds: list[str]
    difference: float


@dataclass(frozen=True)
class EvaluationGroup:
    """Evaluations of the same questions.

    Attributes:
        split: "test", "dev", "train", another name, or "" if it is not known.
        evaluations: by label; the others are compared with the first, whose label is `base`.
        name: unique on the page, for anchors.
    """

    split: str
    evaluations: Evaluations
    name: str

    @property
    def base(self) -> str:
        """The label of the evaluation that the others are compared with."""
        return next(iter(self.evaluations))

    @property
    def metric(self) -> str:
        """The main metric."""
        return self.evaluations[self.base].metrics[0]

    @property
    def tables(self) -> list[Table]:
        """Scores with costs, comparisons, fates of the gold passages, and scores by type."""
        return [*score_tables("scores", self.evaluations, types=True)]

    @cached_property
    def questions(self) -> list[Question]:
        """Every question, in the order of the data."""
        by_id: dict[str, dict[str, QuestionRecord]] = {}
        for label, evaluation in self.evaluations.items():
            for record in evaluation.records:
                by_id.setdefault(record.id, {})[label] = record
        return [self._question(records) for records in by_id.values()]

    def _question(self, records: dict[str, QuestionRecord]) -> Question:
        every = [record.scores.get(self.metric) for record in records.values()]
        scores = [score for score in every if score is not None]
        pair = len(self.evaluations) == len(scores) == 2
        difference = scores[1] - scores[0] if pair else 0.0
        kinds = {
            "differs": len({*scores}) > 1,
            "win": difference > 0,
            "loss": difference < 0,
            "same": len(records) > 1 and len({*scores}) <= 1,
            "short": bool(scores) and min(scores) < 1,
            "failed": any(record.failure for record in records.values()),
        }
        return Question(records, every, [kind for kind, applies in kinds.items() if applies], difference)

    @cached_property
    def listed(self) -> list[Question]:
        """At most 500 questions; those that every evaluation answered correctly are left out first."""
        telling = {"differs", "failed", "short"}
        ranked = sorted(enumerate(self.questions), key=lambda each: telling.isdisjoint(each[1].kinds))
        return [question for _, question in sorted(ranked[:_MOST_QUESTIONS], key=lambda each: each[0])]

    @property
    def kind_counts(self) -> Counter[str]:
        """How many questions each filter lets through."""
        return Counter(kind for question in self.questions for kind in question.kinds)


def group_evaluations(evaluations: Evaluations) -> list[EvaluationGroup]:
    """Group evaluations by split and questions, those on test questions first.

    In each group, the others are compared with the one that has "before" in its label, or with the first.
    """
    members: dict[tuple[str, str], Evaluations] = {}
    for label, evaluation in sorted(evaluations.items(), key=lambda item: "before" not in item[0]):
        origin = evaluation.provenance
        members.setdefault((origin.split, origin.data), Evaluations())[label] = evaluation
    ranked = sorted(members.items(), key=lambda item: _SPLITS.index(item[0][0]) if item[0][0] in _SPLITS else 9)
    return [EvaluationGroup(split, group, f"group-{place}") for place, ((split, _), group) in enumerate(ranked)]
