"""The reranker that needs no download."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from knowgap.retrieval.lexical import Stemmed, content_words
from knowgap.retrieval.rerankers.pair_scores import PairScorer, cached

__all__ = ["EmbeddedReranker", "coverage"]

_SIMILARITY, _COVERAGE, _INTERCEPT = 8.7, 4.6, -7.7


class EmbeddedReranker(PairScorer):
    """MiniLM's similarity of query and text, and the coverage of the query's rare words by the text.

    It is no cross-encoder: query and text are encoded separately. A logistic regression over the two features gives
    its scores the scale of logits. It was fitted to separate gold from other paragraphs of HotpotQA's and
    2WikiMultihopQA's training questions; the default δ is where MIGRES' rule (table 12) puts it on those questions.
    """

    def __init__(self) -> None:
        super().__init__()
        self.name = "embedded MiniLM similarity with word coverage"
        self.default_threshold: float | None = -0.5
        self.scale = "logits of the embedded reranker"
        self._stemmed = Stemmed()

    @cached
    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The logit of each (query, text) pair, from about -8 to 6; the intercept, -7.7, if either is blank."""
        from knowgap.retrieval.minilm import sentence_encoder

        encoder = sentence_encoder()
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        vectors = dict(zip(texts, encoder.encode(texts).astype(np.float64), strict=True))
        scores = []
        for query, text in pairs:
            score = _INTERCEPT
            if query.strip() and text.strip():
                words = content_words(query)
                weights = [rarity**2 for rarity in encoder.rarity(words)]
                score += _SIMILARITY * float(vectors[query] @ vectors[text])
                score += _COVERAGE * coverage(words, weights, text, self._stemmed)
            scores.append(round(score, 4))
        return scores


def coverage(words: Sequence[str], weights: Sequence[float], text: str, stemmed: Stemmed) -> float:
    """The weight of the words whose stems are in the text, as a fraction of the weight of all words; 0 for none."""
    total, stems = sum(weights), stemmed(text)
    covered = sum(weight for weight, word in zip(weights, words, strict=True) if stemmed.word(word) in stems)
    return covered / total if total else 0.0
