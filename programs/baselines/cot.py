"""The baseline that reasons without retrieval."""

from __future__ import annotations

from typing import Any

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice
from knowgap.programs.trace.steps import Reasoned
from knowgap.signatures import STYLES, ReasonDirectly

__all__ = ["ChainOfThought"]


class ChainOfThought(Program):
    """Reason step by step from memory, then answer (Wei et al., 2022); zero-shot unless compiled."""

    name = "cot"
    needs_retriever = False

    style = Choice("short", "how the answer is worded", choices=tuple(STYLES), tune=False)

    def __init__(self, retriever: Any = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.answer = dspy.Predict(ReasonDirectly)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` without passages; the prediction adds `reasoning`."""
        output = self.ask(self.answer, question=question, style=STYLES[self.style])
        answer = (output.answer or "").strip() if output is not None else ""
        reasoning = (output.reasoning or "").strip() if output is not None else ""
        self.record(Reasoned(what="chain of thought", text=reasoning))
        return self.conclude(answer, [], reasoning=reasoning)
