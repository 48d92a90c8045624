"""Evaluations as pages show them: grouped by the questions they asked, each compared with the group's first."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from knowgap.compiling.evaluation.results import Evaluation, compare
from knowgap.compiling.evaluation.runner import QuestionRecord
from knowgap.compiling.evaluation.statistics import Comparison, Interval
from knowgap.errors import UnknownName, UsageError
from knowgap.programs.trace.evidence import FATES
from knowgap.programs.trace.trace import Trace, describe_step

__all__ = ["EvaluationGroup", "Question", "group_evaluations", "trace_lines"]

COST_NAMES = (
    "lm_calls",
    "critical_calls",
    "unreadable",
    "cut",
    "tokens",
    "retrievals",
    "passages",
    "knowledge_tokens",
    "iterations",
    "seconds",
)
"""The costs that pages show."""

_SPLIT_ORDER = ("test", "seen", "dev", "train", "")
_MOST_QUESTIONS = 500


@dataclass(frozen=True)
class Question:
    """A question with its records by label of the evaluation, and its scores by the main metric.

    `kinds` are the filters that let it through; `difference` is second minus first score if there are two, else 0.
    """

    records: dict[str, QuestionRecord]
    scores: list[float | None]
    kinds: tuple[str, ...]
    difference: float


@dataclass(frozen=True)
class EvaluationGroup:
    """Evaluations of the same questions.

    Attributes:
        split: "test", "dev", "train", another name, "" if it is not known, or "seen" for questions that are called
            test questions although a study compared its trials on them.
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
        """Mean with interval by metric and label, of what is defined for some question."""
        metrics = dict.fromkeys(metric for e in self.evaluations.values() for metric in e.all_metrics)
        by_metric = {
            metric: {
                label: evaluation.interval(metric)
                for label, evaluation in self.evaluations.items()
                if any(record.scores.get(metric) is not None for record in evaluation.records)
            }
            for metric in metrics
        }
        return {metric: intervals for metric, intervals in by_metric.items() if intervals}

    @property
    def scored_intervals(self) -> list[Interval]:
        """The intervals of all scores that were asked for."""
        return [interval for metric in self.scored for interval in self.intervals[metric].values()]

    @property
    def type_intervals(self) -> list[Interval]:
        """The intervals of all types of questions."""
        return [interval for by_label in self.types.values() for interval in by_label.values()]

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
        """What became of the gold passages: by fate and label, how many and their share; fates that occur somewhere."""
        by_label = {label: counts for label, e in self.evaluations.items() if (counts := e.evidence())}
        return {
            fate: {label: f"{c[fate]} ({c[fate] / sum(c.values()):.1%})" for label, c in by_label.items()}
            for fate in FATES
            if any(counts[fate] for counts in by_label.values())
        }

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
        scored = self.intervals.get(self.metric, {})
        by_label = {label: self.evaluations[label].by_type(self.metric) for label in scored}
        kinds = sorted({kind for intervals in by_label.values() for kind in intervals})
        return {kind: {label: by_label[label][kind] for label in by_label if kind in by_label[label]} for kind in kinds}

    @cached_property
    def questions(self) -> list[Question]:
        """Every question, in the order of the data."""
        by_label = {label: {r.id: r for r in e.records} for label, e in self.evaluations.items()}
        ids = dict.fromkeys(name for records in by_label.values() for name in records)
        return [
            self._question({label: records[name] for label, records in by_label.items() if name in records})
            for name in ids
        ]

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
            "failed": any(record.error for record in records.values()),
        }
        return Question(records, every, tuple(kind for kind, applies in kinds.items() if applies), difference)

    @cached_property
    def listed(self) -> list[Question]:
        """At most 500 questions; those that are right and the same everywhere are left out first."""
        telling = {"differs", "failed", "short"}
        ranked = sorted(range(len(self.questions)), key=lambda n: telling.isdisjoint(self.questions[n].kinds))
        return [self.questions[n] for n in sorted(ranked[:_MOST_QUESTIONS])]

    @property
    def kind_counts(self) -> dict[str, int]:
        """How many questions each filter lets through."""
        return {
            kind: sum(kind in question.kinds for question in self.questions)
            for kind in ("differs", "win", "loss", "same", "short", "failed")
        }

    @property
    def traced(self) -> bool:
        """Whether a listed question has a trace."""
        return any(record.trace for question in self.listed for record in question.records.values())


def group_evaluations(
    evaluations: Mapping[str, Evaluation], *, base: str | None = None, dev_digest: str = ""
) -> list[EvaluationGroup]:
    """Group evaluations by split and questions, those on test questions first.

    Args:
        evaluations: by label.
        base: which one the others are compared with; by default one with "before" in its label, or the first.
        dev_digest: digest of the questions on which a study compared its trials.

    Raises:
        UnknownName: no evaluation has the label `base`.
    """
    if base is not None and base not in evaluations:
        raise UnknownName.among("evaluation", base, evaluations)
    members: dict[tuple[str, str], dict[str, Evaluation]] = {}
    for label, evaluation in evaluations.items():
        origin = evaluation.provenance
        split = "seen" if origin.split == "test" and dev_digest and origin.data == dev_digest else origin.split
        members.setdefault((split, origin.data), {})[label] = evaluation
    keys = sorted(members, key=lambda key: _SPLIT_ORDER.index(key[0]) if key[0] in _SPLIT_ORDER else len(_SPLIT_ORDER))
    return [
        EvaluationGroup(key[0], _first(members[key], base), f"{key[0] or 'split'}-{position}")
        for position, key in enumerate(keys)
    ]


def _first(evaluations: dict[str, Evaluation], base: str | None) -> dict[str, Evaluation]:
    """The same with the one first that the others are compared with."""
    first = base if base in evaluations else next((label for label in evaluations if "before" in label), None)
    return dict(sorted(evaluations.items(), key=lambda item: item[0] != first)) if first else evaluations


def trace_lines(trace: Trace) -> list[tuple[str, str, Sequence[str]]]:
    """A trace as lines: kind of step, headline and details; a new iteration or branch is of the kind "when"."""
    lines: list[tuple[str, str, Sequence[str]]] = []
    iteration, branch = 0, ""
    for step in trace.steps:
        if step.iteration != iteration:
            iteration, branch = step.iteration, ""
            lines.append(("when", f"iteration {iteration}", ()))
        if step.branch != branch:
            branch = step.branch
            lines.append(("when", branch or "—", ()))
        headline, *details = describe_step(trace, step)
        lines.append((step.kind, headline, details))
    return lines
