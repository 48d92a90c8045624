"""Evaluations as pages show them: grouped by the questions they asked, each compared with the group's first."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from knowgap.compiling.evaluation.costs import PER_RIGHT_ANSWER
from knowgap.compiling.evaluation.results import Evaluation, compare
from knowgap.compiling.evaluation.runner import QuestionRecord
from knowgap.compiling.evaluation.statistics import Comparison, Interval
from knowgap.errors import UnknownName, UsageError
from knowgap.programs.trace.evidence import FATES

COST_NAMES = (
    *("lm_calls", "critical_calls", "unreadable", "cut", "tokens", *PER_RIGHT_ANSWER),
    *("retrievals", "passages", "knowledge_tokens", "iterations", "seconds"),
)
"""The costs that pages show."""

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
    def intervals(self) -> dict[str, dict[str, Interval]]:
        """The mean with its interval, by metric and label, of the metrics that are defined for some question."""
        metrics = dict.fromkeys(metric for e in self.evaluations.values() for metric in e.all_metrics)
        by_metric = {
            metric: {label: e.interval(metric) for label, e in self.evaluations.items() if e.defines(metric)}
            for metric in metrics
        }
        return {metric: intervals for metric, intervals in by_metric.items() if intervals}

    @property
    def scored(self) -> list[str]:
        """The metrics that were asked for."""
        asked = {metric for evaluation in self.evaluations.values() for metric in evaluation.metrics}
        return [metric for metric in self.intervals if metric in asked]

    @property
    def evidence_metrics(self) -> list[str]:
        """The measures of the gold evidence."""
        measures = {metric for evaluation in self.evaluations.values() for metric in evaluation.evidence_metrics}
        return sorted((metric for metric in self.intervals if metric in measures), key=lambda name: "@" not in name)

    @cached_property
    def fates(self) -> dict[str, dict[str, str]]:
        """The share of the gold passages with each fate, by fate and label; fates that do not occur are left out."""
        by_label = {label: shares for label, e in self.evaluations.items() if (shares := e.evidence())}
        return {
            fate: {label: f"{shares[fate]:.1%}" for label, shares in by_label.items()}
            for fate in FATES
            if any(shares[fate] for shares in by_label.values())
        }

    @cached_property
    def refusals(self) -> dict[str, dict[str, Any]]:
        """`Evaluation.refusals` by label; empty if the questions have none that is unanswerable."""
        return {label: said for label, e in self.evaluations.items() if (said := e.refusals())}

    @cached_property
    def comparisons(self) -> dict[str, Comparison]:
        """Each evaluation but the first against the first, by label; those that cannot be compared are left out."""
        comparisons: dict[str, Comparison] = {}
        for label in list(self.evaluations)[1:]:
            # an unfinished file of answers, or one with other metrics, cannot be compared
            with contextlib.suppress(UsageError, UnknownName):
                comparisons[label] = compare(self.evaluations[self.base], self.evaluations[label], self.metric)
        return comparisons

    @cached_property
    def types(self) -> dict[str, dict[str, Interval]]:
        """The main metric by type of question and label."""
        by_label = {
            label: self.evaluations[label].by_type(self.metric) for label in self.intervals.get(self.metric, {})
        }
        kinds = sorted({kind for intervals in by_label.values() for kind in intervals})
        return {kind: {label: by[kind] for label, by in by_label.items() if kind in by} for kind in kinds}

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


def group_evaluations(evaluations: Mapping[str, Evaluation], *, base: str | None = None) -> list[EvaluationGroup]:
    """Group evaluations by split and questions, those on test questions first.

    Args:
        evaluations: by label.
        base: which one the others are compared with; by default one with "before" in its label, or the first.

    Raises:
        UnknownName: no evaluation has the label `base`.
    """
    if base is not None and base not in evaluations:
        raise UnknownName.among("evaluation", base, evaluations)
    members: dict[tuple[str, str], dict[str, Evaluation]] = {}
    for label, evaluation in evaluations.items():
        origin = evaluation.provenance
        members.setdefault((origin.split, origin.data), {})[label] = evaluation
    for key, group in members.items():
        first = base if base in group else next((label for label in group if "before" in label), None)
        members[key] = dict(sorted(group.items(), key=lambda item: item[0] != first))
    order = {split: place for place, split in enumerate(_SPLIT_ORDER)}
    ranked = sorted(members.items(), key=lambda item: order.get(item[0][0], len(order)))
    return [
        EvaluationGroup(split, group, f"{split or 'split'}-{place}") for place, ((split, _), group) in enumerate(ranked)
    ]
