"""The baseline without retrieval: the model's own answer."""

from __future__ import annotations

from typing import Any, ClassVar

import dspy

from knowgap.programs.base import Program
from knowgap.programs.outputs import text_of
from knowgap.signatures import AnswerDirectly

__all__ = ["Direct"]


class Direct(Program):
    """Ask the language model and take its answer.

    The row without retrieval of every table: "Direct" (RA-ISF, table 1), "NoR" (Adaptive-Note, table 1).
    """

    name = "direct"
    needs_retriever = False
    signature: ClassVar[type[dspy.Signature]] = AnswerDirectly

    def __init__(self, retriever: Any = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.answer = dspy.Predict(self.signature)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` without passages."""
        return self.conclude(text_of(self.ask(self.answer, question=question, style=self.wording)), [])
