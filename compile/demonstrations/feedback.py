"""What was wrong with an answer, in words: the feedback that GEPA reflects on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dspy

from knowgap.compiling.evaluation.metrics import Metric
from knowgap.compiling.evaluation.metrics.normalize import reference_answers
from knowgap.programs.trace.evidence import evidence_fates
from knowgap.programs.trace.steps import Stopped


def feedback_metric(metric: Metric) -> Callable[..., dspy.Prediction]:
    """A metric in GEPA's form, which returns a score and feedback; the feedback of a metric that has one is passed on.

    Else it says what was expected and answered, what became of the evidence, and why the program stopped.
    """

    def with_feedback(
        gold: Any, pred: Any, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
    ) -> dspy.Prediction:
        result: Any = metric(gold, pred)
        score = float(getattr(result, "score", result))
        if hasattr(result, "feedback"):
            return dspy.Prediction(score=score, feedback=str(result.feedback))
        prediction = pred if isinstance(pred, dspy.Prediction) else {}  # DSPy passes another if none could be parsed
        expected = " or ".join(repr(answer) for answer in reference_answers(gold)[:5])
        lines = [f"The answer {prediction.get('answer') or ''!r} scores {score:.2f}; expected was {expected}."]
        if (steps := prediction.get("trace")) is not None:
            fates = evidence_fates(steps, gold.get("gold_ids") or ())
            lines += [f"The passage {passage!r} holds evidence: {fate}." for passage, fate in fates.items()]
            lines += [f"The program stopped because of: {stop.reason}." for stop in steps.of(Stopped)[-1:]]
        return dspy.Prediction(score=score, feedback=" ".join(lines))

    return with_feedback
