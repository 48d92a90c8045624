"""Late interaction as a reranker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from knowgap.retrieval.rerankers.pair_scores import PairScorer, cached

if TYPE_CHECKING:
    from knowgap.retrieval.colbert.index import ColBERTIndex


class MaxSimReranker(PairScorer):
    """MaxSim of query and text under the checkpoint of a ColBERT index.

    Args:
        index: its checkpoint encodes queries and texts; the texts need not be its passages.
        default_threshold: δ, if known. There is no general one, since scores grow with the number of query tokens.
    """

    def __init__(self, index: ColBERTIndex, *, default_threshold: float | None = None) -> None:
        super().__init__()
        self._index = index
        self.name = f"MaxSim with {index.manifest.checkpoint['name']}"
        self.default_threshold = default_threshold
        self.scale = "sums of cosines over query tokens"

    @cached
    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The MaxSim of each (query, text) pair; 0 for a blank query."""
        from knowgap.retrieval.colbert.maxsim import TokenVectors

        encoder = self._index.encoder
        texts = list(dict.fromkeys(text for _, text in pairs))
        row = {text: i for i, text in enumerate(texts)}
        vectors = TokenVectors(*encoder.encode_passages(texts))
        positions: dict[str, list[int]] = {}
        for position, (query, _) in enumerate(pairs):
            if query.strip():
                positions.setdefault(query, []).append(position)
        scores = np.zeros(len(pairs))
        for query, own in positions.items():
            scores[own] = vectors.rescore(encoder.encode_query(query), np.array([row[pairs[i][1]] for i in own]))
        return scores.tolist()
