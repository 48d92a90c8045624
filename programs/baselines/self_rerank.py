"""Self-Rerank: the model itself ranks the passages and drops those beside the point."""

from __future__ import annotations

from typing import Any

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Integer
from knowgap.programs.outputs import text_of
from knowgap.programs.reading.passage_numbering import cited
from knowgap.programs.trace.steps import Filtered
from knowgap.retrieval.passage import Retriever
from knowgap.signatures import STYLES, AnswerFromPassages, RankPassages

__all__ = ["SelfRerank"]


class SelfRerank(Program):
    """Retrieve once, let the model order the passages by use and leave out the useless, and answer from the rest.

    A baseline of Adaptive-Note (table 1), which takes it from Xu et al., "ActiveRAG" (2024): Self-RAG (Asai et al.,
    ICLR 2024) reduced to prompting, without its training and reflection tokens. A ranking that cannot be read leaves
    the passages as they were retrieved; one that names none leaves none.
    """

    name = "self_rerank"

    top_k = Integer(5, "passages retrieved and ranked", low=1, high=50)
    style = Choice("short", "how the answer is worded", choices=tuple(STYLES), tune=False)

    def __init__(self, retriever: Retriever | None = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.rank = dspy.Predict(RankPassages)
        self.answer = dspy.Predict(AnswerFromPassages)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` from the passages that the model keeps."""
        self.begin_iteration(1)
        passages = self.retrieve_passages(question, self.top_k)
        output = self.ask(self.rank, question=question, passages=passages) if passages else None
        kept = passages if output is None else cited(passages, output.relevant_ids or ())
        dropped = [passage.id for passage in passages if passage not in kept]
        self.record(Filtered(kept=[passage.id for passage in kept], dropped=dropped))
        output = self.ask(self.answer, question=question, passages=kept, style=STYLES[self.style])
        answer = text_of(output)
        return self.conclude(answer, kept)
