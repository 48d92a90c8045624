"""The reranker that needs no download: three features of MiniLM and the words, and their trained weights.

`benchmarks/bundled_models/relevance.py` trains them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from knowgap.retrieval.logistic import expit
from knowgap.retrieval.lru_cache import LRUCache
from knowgap.retrieval.minilm import TokenStates, read_weights, sentence_encoder, unit, write_weights
from knowgap.retrieval.rerankers.reranker import PairScorer, cached
from knowgap.retrieval.sentences import split_sentences
from knowgap.retrieval.words import Stemmed, content_words

FEATURES = ("similarity", "late interaction", "coverage")

_NAME = "relevance"
_FOUND, _SLOPE = 0.7, 10.0  # the cosine at which a query token counts as half found, and the steepness
_LEAST_WEIGHT = 0.02  # added to the rarity of each query token
_REMEMBERED = 2048
_DECIMALS = 3  # from one processor to the next, logits differ by 2e-6, at most 6e-5
_AT_ONCE = 256  # texts whose token vectors are in memory at once


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
        import torch

        self._projection = torch.from_numpy(np.asarray(projection, dtype=np.float32))
        self._texts: LRUCache[str, EncodedText] = LRUCache(_REMEMBERED)
        self._stemmed = Stemmed()

    def compute(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
        """The features of each pair, [pairs, 3]; all 0 if query or text is blank."""
        features = np.zeros((len(pairs), len(FEATURES)))
        rows: dict[str, list[int]] = {}
        for i, (query, text) in enumerate(pairs):
            if query.strip() and text.strip():
                rows.setdefault(query, []).append(i)
        self.encode([text for query, own in rows.items() for text in (query, *(pairs[i][1] for i in own))])
        for query, own in rows.items():
            about, *texts = self.encode([query, *(pairs[i][1] for i in own)])
            features[own, 0] = np.stack([text.mean for text in texts]) @ about.mean
            features[own, 1] = late_interaction(about, *stack_tokens(texts))
            features[own, 2] = self._best_coverage(query, [pairs[i][1] for i in own])
        return features

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        """Encode texts, or look them up."""
        return self._texts.get(texts, self._encode)

    def _encode(self, texts: Sequence[str]) -> list[EncodedText]:
        parts = (texts[start : start + _AT_ONCE] for start in range(0, len(texts), _AT_ONCE))
        return [self._project(states) for part in parts for states in sentence_encoder().encode_tokens(part)]

    def _project(self, text: TokenStates) -> EncodedText:
        import torch

        kept = text.is_word if text.is_word.any() else np.ones_like(text.is_word)
        weights = text.rarity[kept] + _LEAST_WEIGHT
        # NumPy's own threads would contend with torch's for the cores
        projected = torch.from_numpy(text.states[kept]) @ self._projection.T
        tokens = unit(projected.numpy()).astype(np.float16)
        return EncodedText(unit(text.states.mean(0)), tokens, weights / weights.sum())

    def _best_coverage(self, query: str, texts: Sequence[str]) -> list[float]:
        words = content_words(query)
        weights = [rarity**2 for rarity in sentence_encoder().rarity(words)]
        return [
            max((coverage(words, weights, part, self._stemmed) for part in self._parts(words, text)), default=0.0)
            for text in texts
        ]

    def _parts(self, words: Sequence[str], text: str) -> list[str]:
        """The sentences of a text; or the whole text if it has at most one of the words, for the same coverage."""
        stems = self._stemmed(text)
        return split_sentences(text) if sum(self._stemmed.word(word) in stems for word in words) > 1 else [text]


def stack_tokens(texts: Sequence[EncodedText]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int_]]:
    """The stacked token vectors of texts, [tokens, width], and the row at which each text starts."""
    starts = np.cumsum([0, *(len(text.tokens) for text in texts[:-1])])
    return np.concatenate([text.tokens for text in texts]).astype(np.float32), starts


def late_interaction(
    query: EncodedText, tokens: npt.NDArray[np.float32], starts: npt.NDArray[np.int_]
) -> npt.NDArray[np.float32]:
    """The feature "late interaction" of a query and each of the texts that `stack_tokens` stacked."""
    cosines = np.maximum.reduceat(query.tokens.astype(np.float32) @ tokens.T, starts, axis=1)
    return query.weights @ expit(_SLOPE * (cosines - _FOUND))


def coverage(words: Sequence[str], weights: Sequence[float], text: str, stemmed: Stemmed) -> float:
    """The weight of the words whose stems are in the text, as a fraction of the weight of all words; 0 for none."""
    total, stems = sum(weights), stemmed(text)
    covered = sum(weight for weight, word in zip(weights, words, strict=True) if stemmed.word(word) in stems)
    return covered / total if total else 0.0


@dataclass(frozen=True)
class RelevanceModel:
    """A logistic regression over the features.

    Attributes:
        projection: the projection of token vectors, [width, 384].
        coefficients: the coefficients of the features, [3].
        intercept: the logit if all features are 0.
        delta: the logit from which a text counts as relevant.
        prior: how many of 50 retrieved texts were gold in training, on average; a logit is the log-odds at that prior.
    """

    projection: npt.NDArray[np.float16]
    coefficients: npt.NDArray[np.float64]
    intercept: float
    delta: float
    prior: float

    def logits(self, features: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The logit of each row of features, [pairs]."""
        return features @ self.coefficients + self.intercept

    def save(self, folder: str | Path) -> None:
        """Write `relevance.safetensors`, and `relevance.json` with its digest and the other numbers."""
        coefficients = dict(zip(FEATURES, self.coefficients.tolist(), strict=True))
        numbers = {"intercept": self.intercept, "delta": self.delta, "prior": self.prior}
        write_weights(folder, _NAME, {"projection": self.projection}, {"coefficients": coefficients, **numbers})

    @classmethod
    def load(cls, folder: str | Path | None = None) -> RelevanceModel:
        """Read the model that `save` wrote to a folder; None takes the one that comes with the package.

        Raises:
            CheckpointError: its files are missing or damaged, or belong to another encoder.
        """
        settings, tensors = read_weights(folder or Path(__file__).parent, _NAME)
        coefficients = np.array([settings["coefficients"][name] for name in FEATURES])
        return cls(tensors["projection"], coefficients, settings["intercept"], settings["delta"], settings["prior"])


class EmbeddedReranker(PairScorer):
    """Scores a query and a text by a calibrated logit from MiniLM and their words, trained on public questions.

    It is not a cross-encoder: query and text are encoded separately. A logistic regression over MiniLM's similarity,
    the late interaction of the token vectors, and the coverage of the query's rare words by one sentence gives the
    log-odds that a text is gold if as many of 50 retrieved texts are gold as in training; `scale` states how many. At
    0, a text is as likely gold as not. The default δ keeps at least 90% of the gold texts that rank among the best
    five, on each set of questions that was held out of training in turn. The card beside the weights describes the
    training.

    Args:
        folder: where `benchmarks/train_bundled_models.py` wrote the model; None takes the one that comes
            with the package.

    Raises:
        CheckpointError: its files are missing or damaged.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        super().__init__(Path(folder or Path(__file__).parent) / f"{_NAME}.json")
        self._folder = folder
        self._model, self._features = _load(folder)
        self.name = "embedded MiniLM similarity, late interaction and word coverage"
        self.default_threshold: float | None = self._model.delta
        self.scale = f"log-odds that a text is gold, where {self._model.prior:g} of 50 retrieved are"

    def __reduce__(self) -> tuple[type[EmbeddedReranker], tuple[str | Path | None]]:
        return EmbeddedReranker, (self._folder,)

    @cached
    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The logit of each (query, text) pair; the lowest possible one, the model's intercept, if either is blank."""
        return self._model.logits(self._features.compute(pairs)).round(_DECIMALS).tolist()


@lru_cache(maxsize=4)
def _load(folder: str | Path | None) -> tuple[RelevanceModel, RelevanceFeatures]:
    """A model and its features; all rerankers of a process share the cache of encoded texts."""
    model = RelevanceModel.load(folder)
    return model, RelevanceFeatures(model.projection)
