"""Retrieve once, reason over the passages, answer."""

from __future__ import annotations

import dspy

from knowgap.programs.baselines.rag import RAG
from knowgap.programs.outputs import text_of
from knowgap.programs.trace.steps import Reasoned
from knowgap.signatures import ReasonedAnswer

__all__ = ["RAGChainOfThought"]


class RAGChainOfThought(RAG):
    """Retrieve k passages for the question and reason over them before answering (BlendFilter's CoT baseline)."""

    name = "rag_cot"
    signature = ReasonedAnswer

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` from one retrieval; the prediction adds `reasoning`."""
        self.begin_iteration(1)
        passages = self.retrieve_passages(question, self.top_k)
        output = self.ask(self.answer, question=question, passages=passages, style=self.wording)
        reasoning = text_of(output, "reasoning")
        self.record(Reasoned(what="chain of thought", text=reasoning))
        return self.conclude(text_of(output), passages, reasoning=reasoning)
