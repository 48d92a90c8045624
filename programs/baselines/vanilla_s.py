"""VANILLA-s: plain retrieval-augmented generation over reranked sentences that pass a relevance filter."""

from __future__ import annotations

from typing import Any, ClassVar

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Integer, OptionalReal, Switch
from knowgap.programs.outputs import text_of
from knowgap.programs.reading.passage_filtering import filter_sentences, rerank, resolve_threshold
from knowgap.retrieval import EmbeddedReranker
from knowgap.retrieval.passage import RetrieverLike
from knowgap.retrieval.rerankers.reranker import Reranker
from knowgap.signatures import AnswerFromPassages

__all__ = ["VanillaS"]


class VanillaS(Program):
    """Retrieve, rerank, keep the relevant sentences of the best passages, and answer from them.

    Source: MIGRES, section 4.2 and table 3 (VANILLA-s): the vanilla baseline of Gao et al., "Enabling Large Language
    Models to Generate Text with Citations" (ALCE, EMNLP 2023), over MIGRES' own reranking and sentence filter
    (section 3.2). Simplified: the answer cites nothing. If no passage reaches δ, the model answers without any. With
    `relevance_filter` off it is MIGRES' VANILLA: the best reranked passages as they are, whatever their score.

    Args:
        retriever: the index to search.
        reranker: scores (query, text) pairs; default: the embedded one. The paper's is BGE-reranker-base.
        **kwargs: `concurrent` and hyperparameters.
    """

    name = "vanilla_s"
    presets: ClassVar = {
        "multi_hop": {"delta": 3.0},
        "open_domain": {"delta": 5.0},
        "commonsense": {"delta": 0.0, "style": "yes_no"},
    }
    part_names = ("retriever", "reranker")

    delta = OptionalReal(
        None,
        "relevance threshold δ on the reranker's raw score; none takes the reranker's own default",
        low=-30.0,
        high=30.0,
        search=(-4.0, 8.0),
        when={"relevance_filter": [True]},
    )
    relevance_filter = Switch(True, "drop passages and sentences below δ; off: VANILLA")
    top_k = Integer(5, "passages read at most (section 4.4)", low=1, high=20)
    retrieve_k = Integer(50, "passages retrieved and reranked (table 12)", low=1, high=200)

    def __init__(self, retriever: RetrieverLike | None = None, *, reranker: Reranker | None = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.reranker = reranker or EmbeddedReranker()
        self.answer = dspy.Predict(AnswerFromPassages)

    @property
    def threshold(self) -> float:
        """The δ in force: the hyperparameter, or the reranker's own default."""
        return resolve_threshold(self.reranker, self.delta)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` from one retrieval."""
        self.begin_iteration(1)
        hits = self.retrieve([question], self.retrieve_k)
        threshold = self.threshold if self.relevance_filter else None
        ranked = rerank(self, self.reranker, [question], hits, threshold)[: self.top_k]
        shown = original = [item.passage for item in ranked]
        if threshold is not None:
            filtered = filter_sentences(self, self.reranker, ranked, threshold)
            shown, original = [item.shown for item in filtered], [item.original for item in filtered]
        output = self.ask(self.answer, question=question, passages=shown, style=self.wording)
        return self.conclude(text_of(output), original)
