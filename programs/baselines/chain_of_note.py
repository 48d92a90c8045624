"""Chain-of-Note: a reading note on each passage before the answer."""

from __future__ import annotations

import dspy

from knowgap.programs.baselines.rag import RAG
from knowgap.programs.outputs import text_of
from knowgap.programs.trace.steps import Noted
from knowgap.signatures import ReadingNotes

__all__ = ["ChainOfNote"]


class ChainOfNote(RAG):
    """Retrieve once, then write a note on each passage and answer from the notes, all in one call.

    Source: Yu et al., "Chain-of-Note: Enhancing Robustness in Retrieval-Augmented Language Models" (EMNLP 2024),
    section 3.2, with its three kinds of note: the passage answers, gives background, or is beside the point; 5
    passages. A baseline of Adaptive-Note (table 1) and RQ-RAG (table 2).

    Simplified: the model is prompted, not fine-tuned on notes written by a larger one, and always answers, while the
    paper's model may say that it does not know.
    """

    name = "chain_of_note"
    signature = ReadingNotes

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` from one retrieval; the prediction adds `note`."""
        self.begin_iteration(1)
        passages = self.retrieve_passages(question, self.top_k)
        output = self.ask(self.answer, question=question, passages=passages, style=self.wording)
        note = text_of(output, "note")
        self.record(Noted(note=note, passages=[passage.id for passage in passages]))
        return self.conclude(text_of(output), passages, note=note)
