"""Evaluations as pages show them: grouped by the questions they asked, each compared with the group's first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from knowgap.compiling.evaluation.results import Evaluation
from knowgap.compiling.evaluation.runner import QuestionRecord
from knowgap.reports.tables import Table, score_tables, types_of

_SPLIT_ORDER = ("test", "dev", "train", "")
_MOST_QUESTIONS = 500


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
        evaluations: by label; the others are compared with the first.
        name: unique on the page, for anchors.
    """

    split: str
    evaluations: dict[str, Evaluation]
    name: str

    @property
    def base(self) -> str:
        """The label of the evaluation that the others are compared with."""
        return next(iter(self.evaluations))

    @property
    def metric(self) -> str:
        """The main metric."""
        return self.evaluations[self.base].metrics[0]

    @cached_property
    def tables(self) -> list[Table]:
        """Scores with costs, comparisons, fates of the gold passages, and scores by type."""
        types = types_of(self.evaluations)
        return [*score_tables("scores", self.evaluations), *([types] if types else [])]

    @cached_property
    def questions(self) -> list[Question]:
        """Every question, in the order of the data."""
        by_label = {label: {r.id: r for r in e.records} for label, e in self.evaluations.items()}
        ids = dict.fromkeys(name for records in by_label.values() for name in records)
        return [self._question({label: by[name] for label, by in by_label.items() if name in by}) for name in ids]

    def _question(self, records: dict[str, QuestionRecord]) -> Question:
        every = [record.scores.get(self.metric) for record in records.values()]
        scores = [score for score in every if score is not None]
        difference = scores[1] - scores[0] if len(scores) == 2 else 0.0
        kinds = {
            "differs": len({*scores}) > 1,
            "win": len(self.evaluations) == 2 and difference > 0,
            "loss": len(self.evaluations) == 2 and difference < 0,
            "same": len(records) > 1 and len({*scores}) <= 1,
            "short": bool(scores) and min(scores) < 1,
            "failed": any(record.failure for record in records.values()),
        }
        return Question(records, every, [kind for kind, applies in kinds.items() if applies], difference)

    @cached_property
    def listed(self) -> list[Question]:
        """At most 500 questions; those that every evaluation answered correctly are left out first."""
        telling = {"differs", "failed", "short"}
        ranked = sorted(range(len(self.questions)), key=lambda n: telling.isdisjoint(self.questions[n].kinds))
        return [self.questions[n] for n in sorted(ranked[:_MOST_QUESTIONS])]

    @cached_property
    def kind_counts(self) -> Counter[str]:
        """How many questions each filter lets through."""
        return Counter(kind for question in self.questions for kind in question.kinds)

    @property
    def traced(self) -> bool:
        """Whether a listed question has a trace."""
        return any(record.trace for question in self.listed for record in question.records.values())


def group_evaluations(evaluations: Mapping[str, Evaluation]) -> list[EvaluationGroup]:
    """Group evaluations by split and questions, those on test questions first.

    In each group, the others are compared with the one that has "before" in its label, or with the first.
    """
    members: dict[tuple[str, str], dict[str, Evaluation]] = {}
    for label, evaluation in evaluations.items():
        origin = evaluation.provenance
        members.setdefault((origin.split, origin.data), {})[label] = evaluation
    order = {split: place for place, split in enumerate(_SPLIT_ORDER)}
    ranked = sorted(members.items(), key=lambda item: order.get(item[0][0], len(order)))
    return [
        EvaluationGroup(
            split, dict(sorted(group.items(), key=lambda item: "before" not in item[0])), f"{split or 'split'}-{place}"
        )
        for place, ((split, _), group) in enumerate(ranked)
    ]
