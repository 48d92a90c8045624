"""The entailment model that needs no download."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from knowgap.retrieval.lexical import Stemmed, content_words, names, numbers
from knowgap.retrieval.rerankers.embedded import coverage
from knowgap.retrieval.rerankers.pair_scores import PairScorer, cached
from knowgap.retrieval.sentences import split_sentences

__all__ = ["EmbeddedEntailment"]

_COVERAGE, _SIMILARITY, _INTERCEPT = 8.4, 5.1, -4.9
_NEW_NAME_OR_NUMBER, _OTHER_NEGATION = -9.0, -3.0
_LEAST_WEIGHT = 0.2  # of a common word, beside the rarity of others
_NEGATION = re.compile(r"\b(?:not|no|never|none|neither|nor|without|cannot)\b|n't\b", re.IGNORECASE)


class EmbeddedEntailment(PairScorer):
    """Compares a hypothesis with its premise word by word; it is no model of inference.

    A hypothesis passes if the premise has its content words, all its names and numbers, and the same negation. What
    the words leave open is decided by MiniLM's similarity to the nearest sentence of the premise. It ignores roles:
    "A beat B" and "B beat A" are the same to it. The weights come from a logistic regression on sentences and triples
    of 2WikiMultihopQA's training questions, true ones and altered ones.
    """

    def __init__(self) -> None:
        super().__init__()
        self.name = "embedded word coverage with MiniLM similarity"
        self.default_threshold = 0.5
        self._stemmed = Stemmed()

    @cached
    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """A value between 0 and 1 for each (premise, hypothesis) pair; 0 if either is blank."""
        from knowgap.retrieval.minilm import sentence_encoder

        encoder = sentence_encoder()
        sentences = {premise: [premise, *split_sentences(premise)] for premise, _ in pairs}
        hypotheses = [hypothesis for _, hypothesis in pairs]
        texts = list(dict.fromkeys([*(text for part in sentences.values() for text in part), *hypotheses]))
        vectors = dict(zip(texts, encoder.encode(texts).astype(np.float64), strict=True))
        scores = []
        for premise, hypothesis in pairs:
            if not premise.strip() or not hypothesis.strip():
                scores.append(0.0)
                continue
            similarities = [float(vectors[sentence] @ vectors[hypothesis]) for sentence in sentences[premise]]
            nearest = sentences[premise][int(np.argmax(similarities))]
            words = content_words(hypothesis)
            weights = [_LEAST_WEIGHT + rarity for rarity in encoder.rarity(words)]
            logit = _INTERCEPT + _SIMILARITY * max(similarities)
            logit += _COVERAGE * coverage(words, weights, premise, self._stemmed)
            new_names = {self._stemmed.word(name) for name in names(hypothesis)} - self._stemmed(premise)
            if new_names or numbers(hypothesis) - numbers(premise):
                logit += _NEW_NAME_OR_NUMBER
            if bool(_NEGATION.search(hypothesis)) != bool(_NEGATION.search(nearest)):
                logit += _OTHER_NEGATION
            scores.append(round(float(expit(logit)), 4))
        return scores
