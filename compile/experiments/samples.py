"""Several answers to one question, sampled under different settings of the language model (BlendFilter, figure 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import dspy

from knowgap.programs.trace.trace import Cost

__all__ = ["ask_each", "sampling_lms"]


def sampling_lms(lm: dspy.BaseLM, top_p: Sequence[float]) -> list[dspy.BaseLM]:
    """A copy of a language model for each `top_p`, at temperature 1; the model itself if there is none."""
    return [lm.copy(top_p=value, temperature=1.0) for value in top_p] or [lm]


def ask_each(asks: Sequence[Callable[[], dspy.Prediction]]) -> dspy.Prediction:
    """Ask one after the other.

    Returns:
        The first prediction. If there are several, its `answers` are those of all, for the metric of the best one, and
        its cost is that of all together.
    """
    predictions = [ask() for ask in asks]
    first = predictions[0]
    if len(predictions) > 1:
        first.answers = [prediction.answer for prediction in predictions]
        costs = [prediction.trace.cost for prediction in predictions]
        first.trace.cost = Cost(**{name: sum(getattr(cost, name) for cost in costs) for name in Cost.model_fields})
    return first
