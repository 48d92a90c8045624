"""The baseline that reasons without retrieval."""

from __future__ import annotations

import dspy

from knowgap.programs.baselines.direct import Direct
from knowgap.programs.outputs import text_of
from knowgap.programs.trace.steps import Reasoned
from knowgap.signatures import ReasonDirectly

__all__ = ["ChainOfThought"]


class ChainOfThought(Direct):
    """Reason step by step from memory, then answer.

    Source: Wei et al., "Chain-of-Thought Prompting Elicits Reasoning in Large Language Models" (NeurIPS 2022).
    """

    name = "cot"
    signature = ReasonDirectly

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` without passages; the prediction adds `reasoning`."""
        output = self.ask(self.answer, question=question, style=self.wording)
        reasoning = text_of(output, "reasoning")
        self.record(Reasoned(what="chain of thought", text=reasoning))
        return self.conclude(text_of(output), [], reasoning=reasoning)
