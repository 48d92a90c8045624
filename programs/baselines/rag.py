"""Plain retrieval-augmented generation: retrieve once, read, answer."""

from __future__ import annotations

from typing import Any

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Integer
from knowgap.retrieval.passage import Retriever
from knowgap.signatures import STYLES, AnswerFromPassages

__all__ = ["RAG"]


class RAG(Program):
    """Retrieve k passages for the question and answer from them.

    "Vanilla" (Adaptive-Note, table 1; k = 5), "VANILLA" (MIGRES, table 3), "RAG" (RA-ISF, table 1).
    """

    name = "rag"

    top_k = Integer(5, "passages retrieved and read", low=1, high=50)
    style = Choice("short", "how the answer is worded", choices=tuple(STYLES), tune=False)

    def __init__(self, retriever: Retriever | None = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.answer = dspy.Predict(AnswerFromPassages)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` from one retrieval."""
        self.begin_iteration(1)
        passages = self.retrieve_passages(question, self.top_k)
        output = self.ask(self.answer, question=question, passages=passages, style=STYLES[self.style])
        answer = (output.answer or "").strip() if output is not None else ""
        return self.conclude(answer, passages)
