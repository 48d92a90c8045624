"""The baselines without retrieval: the model's own answer, and one that it reasons out."""

from __future__ import annotations

from typing import Any, ClassVar

import dspy

from knowgap.programs.base import Program
from knowgap.programs.replies.text import text_of
from knowgap.signatures import AnswerDirectly, ReasonDirectly


class Direct(Program):
    """Ask the language model and take its answer.

    The row without retrieval of every table: "Direct" (RA-ISF, table 1), "NoR" (Adaptive-Note, table 1).
    """

    name = "direct"
    calls = "1"
    needs_retriever = False
    signature: ClassVar[type[dspy.Signature]] = AnswerDirectly

    def __init__(self, retriever: Any = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.answer = dspy.Predict(self.signature)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` without passages."""
        return self.conclude(text_of(self.ask(self.answer, question=question, style=self.wording)), [])


class ChainOfThought(Direct):
    """Reason step by step from memory, then answer.

    Source: Wei et al., "Chain-of-Thought Prompting Elicits Reasoning in Large Language Models" (NeurIPS 2022).
    """

    name = "cot"
    signature = ReasonDirectly

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` without passages; the prediction adds `reasoning`."""
        return self.conclude_with(self.ask(self.answer, question=question, style=self.wording), [])
