"""SUMM: passages summarised by the model before reading."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Integer
from knowgap.programs.outputs import text_of
from knowgap.programs.reading.passage_filtering import compress, rerank
from knowgap.retrieval import EmbeddedReranker
from knowgap.retrieval.passage import RetrieverLike
from knowgap.retrieval.rerankers.reranker import Reranker
from knowgap.signatures import AnswerFromPassages, SummarisePassage

__all__ = ["Summ"]


class Summ(Program):
    """Retrieve, rerank, let the model summarise passages until k of them are relevant, and answer from the summaries.

    Source: Gao et al., "Enabling Large Language Models to Generate Text with Citations" (ALCE, EMNLP 2023), SUMM, as
    run in MIGRES (section 4.2, tables 3 and 5): reranked passages are compressed, best first, until five relevant
    ones are there. Simplified: the answer cites nothing, and at most `compressed` passages are tried.

    Args:
        retriever: the index to search.
        reranker: scores (query, text) pairs; default: the embedded one. The paper's is BGE-reranker-base.
        **kwargs: `concurrent` and hyperparameters.
    """

    name = "summ"
    part_names = ("retriever", "reranker")
    output_field: ClassVar[Literal["summary", "snippet"]] = "summary"
    signature: ClassVar[type[dspy.Signature]] = SummarisePassage

    top_k = Integer(5, "relevant passages read (MIGRES, section 4.4)", low=1, high=20)
    compressed = Integer(20, "passages compressed at most", low=1, high=100)
    retrieve_k = Integer(50, "passages retrieved and reranked (MIGRES, table 12)", low=1, high=200)

    def __init__(self, retriever: RetrieverLike | None = None, *, reranker: Reranker | None = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.reranker = reranker or EmbeddedReranker()
        self.compress = dspy.Predict(self.signature)
        self.answer = dspy.Predict(AnswerFromPassages)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` from one retrieval."""
        self.begin_iteration(1)
        hits = self.retrieve([question], self.retrieve_k)
        ranked = rerank(self, self.reranker, [question], hits)[: self.compressed]
        compressed = compress(self, self.compress, self.output_field, ranked, self.top_k)
        output = self.ask(
            self.answer, question=question, passages=[item.shown for item in compressed], style=self.wording
        )
        return self.conclude(text_of(output), [item.original for item in compressed])
