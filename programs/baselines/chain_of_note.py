"""Chain-of-Note: a reading note on each passage before the answer."""

from __future__ import annotations

from typing import Any

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Integer
from knowgap.programs.outputs import text_of
from knowgap.programs.trace.steps import Noted
from knowgap.retrieval.passage import Retriever
from knowgap.signatures import STYLES, ReadingNotes

__all__ = ["ChainOfNote"]


class ChainOfNote(Program):
    """Retrieve once, write a note on each passage in turn, and answer from the notes, all in one call.

    Source: Yu et al., "Chain-of-Note: Enhancing Robustness in Retrieval-Augmented Language Models" (EMNLP 2024),
    section 3.2, with its three kinds of note: the passage answers, it gives background, it is beside the point; 5
    passages. A baseline of Adaptive-Note (table 1) and RQ-RAG (table 2).

    Simplified: the model is prompted, not fine-tuned on notes written by a larger one, and always answers where the
    paper's model may say that it does not know.
    """

    name = "chain_of_note"

    top_k = Integer(5, "passages retrieved and read", low=1, high=50)
    style = Choice("short", "how the answer is worded", choices=tuple(STYLES), tune=False)

    def __init__(self, retriever: Retriever | None = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.answer = dspy.Predict(ReadingNotes)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` from one retrieval; the prediction adds `note`."""
        self.begin_iteration(1)
        passages = self.retrieve_passages(question, self.top_k)
        ids = [passage.id for passage in passages]
        output = self.ask(self.answer, question=question, passages=passages, style=STYLES[self.style])
        answer, note = text_of(output), text_of(output, "note")
        self.record(Noted(note=note, passages=ids))
        return self.conclude(answer, passages, note=note)
