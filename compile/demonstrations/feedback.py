"""What was wrong with an answer, in words: the feedback that GEPA reflects on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dspy

from knowgap.compile.evaluation.metrics import Metric
from knowgap.compile.evaluation.metrics.normalize import reference_answers
from knowgap.programs.trace.steps import Retrieved, Stopped

__all__ = ["feedback_metric", "feedback_text"]


def feedback_metric(metric: Metric) -> Callable[..., dspy.Prediction]:
    """A metric in GEPA's form, `(gold, pred, trace, pred_name, pred_trace)`, which gives a score and says why.

    A metric that gives a `dspy.Prediction` with `score` and `feedback` itself is taken at its word.
    """

    def with_feedback(
        gold: Any, pred: Any, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
    ) -> dspy.Prediction:
        result: Any = metric(gold, pred)
        if hasattr(result, "feedback"):
            return dspy.Prediction(score=float(getattr(result, "score", 0.0)), feedback=str(result.feedback))
        score = float(getattr(result, "score", result))
        return dspy.Prediction(score=score, feedback=feedback_text(gold, pred, score))

    return with_feedback


def feedback_text(example: Any, prediction: Any, score: float) -> str:
    """What was expected and what came, which evidence was found and read, and why the program stopped."""
    expected = " or ".join(repr(answer) for answer in reference_answers(example)[:5])
    answer = str(prediction.get("answer") or "") if hasattr(prediction, "get") else ""
    lines = [f"The answer {answer!r} scores {score:.2f}; expected was {expected}."]
    trace = prediction.get("trace") if hasattr(prediction, "get") else None
    gold = list(example.get("gold_ids") or [])
    if trace is not None and gold:
        found = {passage for step in trace.of(Retrieved) for hits in step.hits for passage in hits}
        used = {passage.id for passage in prediction.get("passages") or []}
        for passage in gold:
            if passage not in found:
                lines.append(f"The passage {passage!r}, which holds evidence, was never retrieved.")
            elif passage not in used:
                lines.append(f"The passage {passage!r}, which holds evidence, was retrieved but not used.")
    if trace is not None and (stops := trace.of(Stopped)):
        lines.append(f"The program stopped because of: {stops[-1].reason}.")
    return " ".join(lines)
