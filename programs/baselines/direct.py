"""The baseline without retrieval: the model's own answer."""

from __future__ import annotations

from typing import Any

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice
from knowgap.signatures import STYLES, AnswerDirectly

__all__ = ["Direct"]


class Direct(Program):
    """Ask the language model and take its answer.

    The no-retrieval row of every table: "Direct" (RA-ISF, table 1), "NoR" (Adaptive-Note, table 1).
    """

    name = "direct"
    needs_retriever = False

    style = Choice("short", "how the answer is worded", choices=tuple(STYLES), tune=False)

    def __init__(self, retriever: Any = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.answer = dspy.Predict(AnswerDirectly)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` without passages."""
        output = self.ask(self.answer, question=question, style=STYLES[self.style])
        answer = (output.answer or "").strip() if output is not None else ""
        return self.conclude(answer, [])
