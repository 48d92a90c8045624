"""Plain retrieval-augmented generation: retrieve once, read, answer."""

from __future__ import annotations

from typing import Any, ClassVar

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Integer
from knowgap.programs.outputs import text_of
from knowgap.retrieval.passage import RetrieverLike
from knowgap.signatures import AnswerFromPassages

__all__ = ["RAG"]


class RAG(Program):
    """Retrieve k passages for the question and answer from them.

    "Vanilla" (Adaptive-Note, table 1; k = 5), "RAG" (RA-ISF, table 1). MIGRES' "VANILLA" reranks: see `VanillaS`.
    """

    name = "rag"
    signature: ClassVar[type[dspy.Signature]] = AnswerFromPassages

    top_k = Integer(5, "passages retrieved and read", low=1, high=50)

    def __init__(self, retriever: RetrieverLike | None = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.answer = dspy.Predict(self.signature)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` from one retrieval."""
        self.begin_iteration(1)
        passages = self.retrieve_passages(question, self.top_k)
        output = self.ask(self.answer, question=question, passages=passages, style=self.wording)
        return self.conclude(text_of(output), passages)
