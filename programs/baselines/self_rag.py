"""Self-RAG reduced to prompting: the model refines the retrieved passages into a note, or ranks them itself."""

from __future__ import annotations

from typing import Any

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Integer
from knowgap.programs.passages import cited
from knowgap.programs.replies.outputs import text_of
from knowgap.programs.trace.steps import Filtered, Noted
from knowgap.retrieval.passage import RetrieverLike
from knowgap.signatures import AnswerFromNote, AnswerFromPassages, InitNote, RankPassages


class SelfRefine(Program):
    """Retrieve once, let the model refine the passages into what bears on the question, and answer from that.

    A baseline of Adaptive-Note (table 1), which takes it from Xu et al., "ActiveRAG" (2024): Self-RAG (Asai et al.,
    ICLR 2024) reduced to prompting, without its training and reflection tokens. It is not the Self-Refine of Madaan
    et al. (2023), which revises answers. If the note comes back empty, the passages themselves take its place.
    """

    name = "self_refine"
    calls = "2"

    top_k = Integer(5, "passages retrieved and refined", low=1, high=50)

    def __init__(self, retriever: RetrieverLike | None = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.refine = dspy.Predict(InitNote)
        self.answer = dspy.Predict(AnswerFromNote)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` from one retrieval; the prediction adds `note`."""
        self.begin_iteration(1)
        passages = self.retrieve_passages(question, self.top_k)
        note = text_of(self.ask(self.refine, question=question, passages=passages, leave=1), "note")
        self.record(Noted(note=note, passages=[passage.id for passage in passages]))
        source, inlined = (note, []) if note else ("\n".join(str(passage) for passage in passages), passages)
        output = self.ask(self.answer, inlined=inlined, question=question, note=source, style=self.wording)
        return self.conclude(text_of(output), passages, note=note)


class SelfRerank(Program):
    """Retrieve once, let the model order the useful passages and drop the others, and answer from those kept.

    A baseline of Adaptive-Note (table 1), which takes it from Xu et al., "ActiveRAG" (2024): Self-RAG (Asai et al.,
    ICLR 2024) reduced to prompting, without its training and reflection tokens. If the ranking cannot be read, all
    passages stay in the retriever's order; if it names none, none stays.
    """

    name = "self_rerank"
    calls = "2"

    top_k = Integer(5, "passages retrieved and ranked", low=1, high=50)

    def __init__(self, retriever: RetrieverLike | None = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.rank = dspy.Predict(RankPassages)
        self.answer = dspy.Predict(AnswerFromPassages)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` from the passages that the model keeps."""
        self.begin_iteration(1)
        passages = self.retrieve_passages(question, self.top_k)
        output = self.ask(self.rank, question=question, passages=passages, leave=1) if passages else None
        kept = passages if output is None else cited(passages, output.relevant_ids or ())
        dropped = [passage.id for passage in passages if passage not in kept]
        self.record(Filtered(kept=[passage.id for passage in kept], dropped=dropped))
        output = self.ask(self.answer, question=question, passages=kept, style=self.wording)
        return self.conclude(text_of(output), kept)
