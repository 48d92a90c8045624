"""The upper bound of a choice among answers: the best of all that a program weighed (RQ-RAG, section 2.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dspy

from knowgap.compile.evaluation.metrics.normalize import predicted_answer

__all__ = ["UpperBound"]


class UpperBound:
    """The best score of a prediction's `answers`.

    With exact match, it is 1.0 where some trajectory leads to a right answer, else 0.0, as RQ-RAG defines the bound
    (Chan et al., 2024, section 2.3; figures in section 4.3). Where a data set is scored by F1 or another metric, so is
    its bound. Answers come from RQ-RAG's trajectories, or from the samples of ALCE's RERANK.

    Args:
        metric: scores one answer.
        name: how its documentation calls that metric.
    """

    def __init__(self, metric: Callable[..., float], name: str = "") -> None:
        self.metric = metric
        self.__doc__ = f"The best {name or 'score'} of all the answers that a program weighed: the bound of its choice."

    def __call__(self, example: Any, prediction: Any, trace: Any = None) -> float:
        """Score every answer once, and take the best.

        Args:
            example: as the metric needs it.
            prediction: has `answers: list[str]`; one without any, as of a method that weighs none, is scored by its
                `answer`. Blank answers score 0.
            trace: unused; DSPy passes one while it bootstraps.
        """
        answers = getattr(prediction, "answers", None) or [predicted_answer(prediction)]
        weighed = dict.fromkeys(answer for answer in answers if isinstance(answer, str) and answer.strip())
        return max((self.metric(example, _saying(prediction, answer)) for answer in weighed), default=0.0)


def _saying(prediction: Any, answer: str) -> Any:
    """The prediction with another answer; an answer alone where it is no prediction of DSPy's."""
    return prediction.copy(answer=answer) if isinstance(prediction, dspy.Prediction) else dspy.Prediction(answer=answer)
