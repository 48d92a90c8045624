"""ITRG: a generated document improves the retrieval, and the retrieval improves the document."""

from __future__ import annotations

from typing import Any

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Integer
from knowgap.programs.passages import distinct
from knowgap.programs.replies.outputs import text_of
from knowgap.programs.trace.steps import Noted, Queried, Stopped
from knowgap.retrieval.passage import Passage, RetrieverLike
from knowgap.signatures import AnswerFromNote, InitNote, UpdateNote


class ITRG(Program):
    """Retrieve with question and document, rewrite the document from the passages, repeat; then answer from it.

    Source: Feng et al., "Retrieval-Generation Synergy Augmented Large Language Models" (ICASSP 2024), with its two
    ways of retrieval-augmented generation: `refresh` writes each document from the new passages alone, `refine`
    updates the previous one; five iterations with 5 passages each. A baseline of MIGRES (table 3).
    If a document cannot be read or is empty, the previous one stays. Departures: docs/methods/baselines.md.
    """

    name = "itrg"
    calls = "3 to 6"

    iterations = Integer(5, "rounds of retrieval and generation", low=1, high=10)
    top_k = Integer(5, "passages retrieved per round", low=1, high=50)
    strategy = Choice(
        "refresh",
        "write each document from the new passages alone, or refine the last one",
        choices=("refresh", "refine"),
    )

    def __init__(self, retriever: RetrieverLike | None = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.refresh = dspy.Predict(InitNote)
        self.refine = dspy.Predict(UpdateNote)
        self.answer = dspy.Predict(AnswerFromNote)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question`; the prediction adds `note`, the last document."""
        document = ""
        sources: list[Passage] = []
        for step in range(1, self.iterations + 1):
            self.begin_iteration(step)
            query = f"{document} {question}" if document else question
            if document:
                self.record(Queried(queries=[query]))
            passages = self.retrieve_passages(query, self.top_k)
            inputs = {"question": question, "passages": passages}
            if document and self.strategy == "refine":
                written = text_of(self.ask(self.refine, best_note=document, **inputs, leave=1), "note")
                sources = distinct([*sources, *passages]) if written else sources
            else:
                written = text_of(self.ask(self.refresh, **inputs, leave=1), "note")
                sources = passages if written else sources
            document = written or document
            self.record(Noted(note=document, passages=[passage.id for passage in sources]))
        self.record(Stopped(reason="iterations"))
        output = self.ask(self.answer, question=question, note=document, style=self.wording)
        return self.conclude(text_of(output), sources, note=document)
