"""Say what is likely wrong if every answer scores 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from knowgap.compiling.evaluation.results import Evaluation
from knowgap.errors import shorten


def explain_zeros(evaluations: Iterable[Evaluation], metric: str) -> str:
    """Say what is likely wrong if all answers score 0; empty if one does not, or if there is only one answer."""
    records = [record for evaluation in evaluations for record in evaluation.records]
    if len(records) < 2 or any(record.scores.get(metric) for record in records):
        return ""
    unanswered = [record for record in records if not record.answer]
    answers = Counter(record.answer for record in records)
    said = f"all {len(records)} answers score 0 by {metric}"
    if 2 * len(unanswered) >= len(records):
        problem = next((record.error for record in unanswered if record.error), "replies are empty or cannot be read")
        return f"{said}: {len(unanswered)} questions have no answer ({shorten(problem, 200)})"
    [(answer, times)] = answers.most_common(1)
    if 2 * times > len(records):
        return f"{said}: the language model answers {shorten(answer, 60)!r} to {times} questions"
    example = next(record for record in records if record.answer)
    expected = next(iter(example.reference), "")
    return (
        f"{said}: the answer to one question is {shorten(example.answer, 100)!r}, and the reference answer is "
        f"{shorten(expected, 60)!r}; check that the index has the passages that the questions need, and that the "
        "metric fits how answers are worded"
    )
