"""The upper bound of a choice among answers: the best of all that a program weighed (RQ-RAG, section 2.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dspy

from knowgap.compiling.evaluation.metrics.normalize import predicted_answer

__all__ = ["UpperBound"]


class UpperBound:
    """The best score of a prediction's `answers`: of RQ-RAG's trajectories, or of the samples of ALCE's RERANK.

    With exact match, it is 1.0 if some trajectory leads to a right answer, as RQ-RAG defines the bound (Chan et al.,
    2024, section 2.3; figures in section 4.3). A data set that is scored by another metric has its bound by that one.

    Args:
        metric: scores one answer.
        name: what the documentation of this bound calls the metric.
    """

    def __init__(self, metric: Callable[..., float], name: str = "") -> None:
        self.metric = metric
        self.__doc__ = f"The best {name or 'score'} of all the answers that a program weighed: the bound of its choice."

    def __call__(self, example: Any, prediction: Any, trace: Any = None) -> float:
        """Score every answer once, and take the best; blank answers score 0.

        A prediction without `answers: list[str]` is scored by its `answer`.
        """
        answers = getattr(prediction, "answers", None) or [predicted_answer(prediction)]
        weighed = dict.fromkeys(answer for answer in answers if isinstance(answer, str) and answer.strip())
        return max((self.metric(example, _saying(prediction, answer)) for answer in weighed), default=0.0)


def _saying(prediction: Any, answer: str) -> Any:
    """A prediction with another answer, and with all other fields if it is one of DSPy's."""
    return prediction.copy(answer=answer) if isinstance(prediction, dspy.Prediction) else dspy.Prediction(answer=answer)
