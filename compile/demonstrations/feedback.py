"""What was wrong with an answer, in words: the feedback that GEPA reflects on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dspy

from knowgap.compiling.evaluation.metrics import Metric
from knowgap.compiling.evaluation.metrics.normalize import reference_answers
from knowgap.compiling.evaluation.metrics.retrieval import found_gold
from knowgap.programs.trace.evidence import found_passages
from knowgap.programs.trace.steps import Stopped


def feedback_metric(metric: Metric) -> Callable[..., dspy.Prediction]:
    """A metric in GEPA's form, `(gold, pred, trace, pred_name, pred_trace)`, which returns a score and feedback.

    The feedback of a metric that returns a `dspy.Prediction` with `score` and `feedback` is passed on.
    """

    def with_feedback(
        gold: Any, pred: Any, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
    ) -> dspy.Prediction:
        result: Any = metric(gold, pred)
        score = float(getattr(result, "score", result))
        feedback = result.feedback if hasattr(result, "feedback") else _feedback(gold, pred, score)
        return dspy.Prediction(score=score, feedback=str(feedback))

    return with_feedback


def _feedback(example: Any, prediction: Any, score: float) -> str:
    """Say what was expected and answered, which evidence was retrieved and used, and why the program stopped."""
    if not isinstance(prediction, dspy.Prediction):
        prediction = dspy.Prediction()  # DSPy passes something else if an output could not be parsed
    expected = " or ".join(repr(answer) for answer in reference_answers(example)[:5])
    answer = str(prediction.get("answer") or "")
    lines = [f"The answer {answer!r} scores {score:.2f}; expected was {expected}."]
    trace = prediction.get("trace")
    if trace is None:
        return lines[0]
    gold = example.get("gold_ids") or []
    retrieved = found_gold(found_passages(trace), gold)
    used = found_gold((passage.id for passage in prediction.get("passages") or []), gold)
    for passage in gold:
        if passage not in retrieved:
            lines.append(f"The passage {passage!r}, which holds evidence, was never retrieved.")
        elif passage not in used:
            lines.append(f"The passage {passage!r}, which holds evidence, was retrieved but not used.")
    if stops := trace.of(Stopped):
        lines.append(f"The program stopped because of: {stops[-1].reason}.")
    return " ".join(lines)
