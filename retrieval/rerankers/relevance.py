"""The reranker that needs no download: three features of MiniLM and the words, and their trained weights.

`benchmarks/bundled_models/relevance.py` trains them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knowgap.retrieval.hub import one_thread
from knowgap.retrieval.lru_cache import LRUCache
from knowgap.retrieval.minilm import minilm_tokenizer, read_weights, token_vectors, unit
from knowgap.retrieval.rerankers.reranker import PairScorer
from knowgap.retrieval.words import content_words, english_stem, split_sentences, words

FOLDER, NAME = Path(__file__).parent, "relevance"
"""Where the weights are, and their name."""
FEATURES = ("similarity", "late interaction", "coverage")

_FOUND, _SLOPE = 0.7, 10.0  # the cosine at which a query token counts as half found, and the steepness
_LEAST_WEIGHT = 0.02  # added to the rarity of each query token
_REMEMBERED = 2048
_DECIMALS = 3  # from one processor to the next, logits differ by 2e-6, at most 6e-5
_FIRST_WORD = 1996  # BERT's vocabulary lists its whole words from here on, the most frequent first
_CHARACTER_RARITY = 0.3  # the rarity of single characters, which the vocabulary does not list by frequency


@dataclass(frozen=True, slots=True)
class EncodedText:
    """A query or a text.

    Attributes:
        mean: the mean of all token vectors, a unit vector, [384].
        tokens: projected unit vectors of its words' tokens, float16 [words, width]; of all tokens if it has no word.
        weights: the weights of these tokens if the text is a query; they sum to 1.
    """

    mean: npt.NDArray[np.float32]
    tokens: npt.NDArray[np.float16]
    weights: npt.NDArray[np.float32]


class RelevanceFeatures:
    """Computes the features of (query, text) pairs. Thread-safe; remembers the latest 2,048 encoded texts.

    - similarity: the cosine of the means of their token vectors, as all-MiniLM-L6-v2 was trained for.
    - late interaction: for each token of the query, its highest cosine with a token of the text (Khattab and Zaharia
      2020, "ColBERT"), passed through a sigmoid that counts a token as found from about 0.7 on; the mean weighted by
      how rare the token is in English. From 0 to 1.
    - coverage: the share of the query's content words, weighted by the square of their rarity, whose stems are in one
      sentence of the text; the highest of all sentences. From 0 to 1.

    The token vectors for the late interaction are projected by `projection`, [width, 384].
    """

    def __init__(self, projection: npt.NDArray[np.floating]) -> None:
        self._projection = np.asarray(projection, dtype=np.float32)
        self._texts: LRUCache[str, EncodedText] = LRUCache(_REMEMBERED)
        size = minilm_tokenizer().get_vocab_size()
        tokens = [minilm_tokenizer().id_to_token(i) or "" for i in range(size)]
        # those in brackets, such as [CLS], stand for no word
        self._is_word = np.array([any(map(str.isalnum, token)) and not token.endswith("]") for token in tokens])
        ids = np.arange(size)
        self._rarity = np.where(ids < _FIRST_WORD, _CHARACTER_RARITY, rarity(ids)).astype(np.float32)

    def compute(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
        """The features of each pair, [pairs, 3]; all 0 if query or text is blank."""
        features = np.zeros((len(pairs), len(FEATURES)))
        told = [i for i, (query, text) in enumerate(pairs) if query.strip() and text.strip()]
        encoded = iter(self.encode([each for i in told for each in pairs[i]]))
        for i, query, text in zip(told, encoded, encoded, strict=True):
            features[i] = query.mean @ text.mean, late_interaction(query, text), coverage(*pairs[i])
        return features

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        """Encode texts, or look them up."""
        return self._texts.get(texts, lambda new: [self._project(*text) for text in token_vectors(new)])

    def _project(self, ids: list[int], states: npt.NDArray[np.float32]) -> EncodedText:
        is_word = self._is_word[ids]
        kept = is_word if is_word.any() else np.ones_like(is_word)
        weights = self._rarity[ids][kept] + _LEAST_WEIGHT
        with one_thread():
            tokens = states[kept] @ self._projection.T
        return EncodedText(unit(states.mean(0)), unit(tokens).astype(np.float16), weights / weights.sum())


def rarity(ids: Any) -> Any:
    """The rarity in English of the words that BERT's vocabulary has at some places, from 0 ("the") to 1.

    It is the inverse document frequency that Zipf's law predicts from a word's rank in the vocabulary, which is sorted
    by frequency.
    """
    last = minilm_tokenizer().get_vocab_size() - _FIRST_WORD
    return np.log(np.maximum(np.subtract(ids, _FIRST_WORD - 1), 1)) / np.log(last)


def late_interaction(query: EncodedText, text: EncodedText) -> float:
    """The feature "late interaction" of a query and a text."""
    cosines = (query.tokens.astype(np.float32) @ text.tokens.astype(np.float32).T).max(axis=1)
    return float(query.weights @ (1 / (1 + np.exp(-_SLOPE * (cosines - _FOUND)))))


def coverage(query: str, text: str) -> float:
    """The feature "coverage" of a query and a text."""
    weights = _weights(query)
    total = sum(weights.values())
    covered = (sum(weights[stem] for stem in weights if stem in _stems(part)) for part in split_sentences(text))
    return max(covered, default=0.0) / total if total else 0.0


@lru_cache(maxsize=1024)
def _weights(query: str) -> dict[str, float]:
    """The weight of each content word of a query, by its stem: the square of its rarity, 1 for an unknown word."""
    found: dict[str, float] = {}
    for word in content_words(query):
        place = minilm_tokenizer().token_to_id(word)
        stem, weight = english_stem(word), 1.0 if place is None else float(rarity(place)) ** 2
        found[stem] = found.get(stem, 0.0) + weight
    return found


@lru_cache(maxsize=8192)
def _stems(text: str) -> frozenset[str]:
    return frozenset(map(english_stem, words(text)))


class EmbeddedReranker(PairScorer):
    """Scores a query and a text by a calibrated logit from MiniLM and their words, trained on public questions.

    It is not a cross-encoder: query and text are encoded separately. A logistic regression over MiniLM's similarity,
    the late interaction of the token vectors, and the coverage of the query's rare words by one sentence gives the
    log-odds that a text is gold if as many of 50 retrieved texts are gold as in training; `scale` states how many. At
    0, a text is as likely gold as not; blank texts have the lowest score. The default δ keeps at least 90% of the gold
    texts that rank among the best five, on each set of questions that was held out of training in turn. The card beside
    the weights describes the training.

    Raises:
        CheckpointError: its files are missing or damaged, or belong to another encoder.
    """

    def __init__(self) -> None:
        super().__init__(FOLDER / f"{NAME}.json")
        settings, self._features = _load()
        self._coefficients = np.array([settings["coefficients"][name] for name in FEATURES])
        self._intercept = settings["intercept"]
        self.name = "embedded MiniLM similarity, late interaction and word coverage"
        self.default_threshold: float | None = settings["delta"]
        self.scale = f"log-odds that a text is gold, where {settings['prior']:g} of 50 retrieved are"

    def __reduce__(self) -> tuple[type[EmbeddedReranker], tuple[()]]:
        return EmbeddedReranker, ()

    def _score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        logits = self._features.compute(pairs) @ self._coefficients + self._intercept
        return logits.round(_DECIMALS).tolist()


@lru_cache(maxsize=1)
def _load() -> tuple[dict[str, Any], RelevanceFeatures]:
    """The settings and the features; all rerankers of a process share the cache of encoded texts."""
    settings, tensors = read_weights(FOLDER, NAME)
    return settings, RelevanceFeatures(tensors["projection"])
