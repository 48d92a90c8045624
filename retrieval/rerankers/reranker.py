"""Rerankers: how relevant a text is to a query, judged from both together. Scores are raw, each on its own scale."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from knowgap.retrieval.lexical import Stemmed, content_words
from knowgap.retrieval.lru_cache import Memory
from knowgap.retrieval.rerankers.cross_encoder import load_cross_encoder, predict

if TYPE_CHECKING:
    from knowgap.retrieval.colbert.index import ColBERTIndex

__all__ = ["CrossEncoderReranker", "EmbeddedReranker", "MaxSimReranker", "Reranker", "make_reranker"]

_KEPT_PAIRS = 262_144
_SIMILARITY, _COVERAGE, _INTERCEPT = 8.7, 4.6, -7.7


class Reranker(Protocol):
    """What a program needs of a reranker.

    Attributes:
        name: which model it is.
        default_threshold: the score from which a text counts as relevant (MIGRES' δ), on this reranker's scale; None
            where no one has set it, which a calibration can mend.
        scale: what its scores are, in words; a δ is meaningless without it.
    """

    name: str
    default_threshold: float | None
    scale: str

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """A score for each (query, text); higher is more relevant. A pair is scored once and then remembered."""
        ...


class CrossEncoderReranker:
    """A cross-encoder of sentence-transformers, such as `BAAI/bge-reranker-base`.

    Scores are its raw logits, computed in half precision where the processor does, and so right to two or three digits.

    Args:
        model: a folder, or a name on the Hugging Face hub.
        device: where to compute; None takes a GPU where there is one.
        default_threshold: δ on the scale of this model. None means 3.0 for BGE-reranker-base (MIGRES' multi-hop
            setting) and 0.0, even odds for a model trained with a logistic loss, for any other.

    Raises:
        CheckpointError: no such model, or one that gives more than one score to a pair.
    """

    def __init__(self, model: str | Path, *, device: str | None = None, default_threshold: float | None = None) -> None:
        self._model = load_cross_encoder(model, device=device, labels=1)
        self.name = str(model)
        if default_threshold is None:
            default_threshold = 3.0 if Path(self.name).name == "bge-reranker-base" else 0.0
        self.default_threshold: float | None = default_threshold
        self.scale = f"raw logits of {self.name}"
        self._memory: Memory[tuple[str, str], float] = Memory(_KEPT_PAIRS)

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The logit of each (query, text)."""
        return self._memory.get(pairs, lambda missing: predict(self._model, missing)[:, 0].tolist())

    def __deepcopy__(self, memo: dict[int, Any]) -> CrossEncoderReranker:
        return self


class EmbeddedReranker:
    """The scorer that needs no download: MiniLM's similarity, and how much of the query's rare words the text has.

    It is no cross-encoder: query and text are encoded apart. A logistic regression over the two features, fitted to
    tell the gold paragraphs of HotpotQA's and 2WikiMultihopQA's training questions from others, gives its scores the
    scale of logits; the default δ is where MIGRES' rule (table 12) puts it on those questions.
    """

    def __init__(self) -> None:
        self.name = "embedded MiniLM similarity with word coverage"
        self.default_threshold: float | None = -0.5
        self.scale = "logits of the embedded reranker"
        self._memory: Memory[tuple[str, str], float] = Memory(_KEPT_PAIRS)
        self._stemmed = Stemmed()

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The logit of each (query, text), roughly from -8 to 6; the least for a blank query or text."""
        return self._memory.get(pairs, self._score)

    def _score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        from knowgap.retrieval.minilm import sentence_encoder

        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        row = {text: i for i, text in enumerate(texts)}
        vectors = sentence_encoder().encode(texts).astype(np.float64)
        scores = []
        for query, text in pairs:
            similarity, coverage = float(vectors[row[query]] @ vectors[row[text]]), self._coverage(query, text)
            blank = not query.strip() or not text.strip()
            score = _INTERCEPT + (0.0 if blank else _SIMILARITY * similarity + _COVERAGE * coverage)
            scores.append(round(score, 4))
        return scores

    def _coverage(self, query: str, text: str) -> float:
        """The share of the query's content words that the text has, each weighed by the square of its rarity."""
        from knowgap.retrieval.minilm import sentence_encoder

        asked = content_words(query)
        weights = [weight**2 for weight in sentence_encoder().rarity(asked)]
        if not sum(weights):
            return 0.0
        had = self._stemmed(text)
        return sum(w for w, word in zip(weights, asked, strict=True) if self._stemmed.word(word) in had) / sum(weights)

    def __deepcopy__(self, memo: dict[int, Any]) -> EmbeddedReranker:
        return self


class MaxSimReranker:
    """Late interaction as a reranker: MaxSim between query and text under the checkpoint of a ColBERT index.

    Args:
        index: whose checkpoint encodes; the texts need not be passages of it.
        default_threshold: δ, where it is known; scores grow with the number of query tokens, so that none is given.
    """

    def __init__(self, index: ColBERTIndex, *, default_threshold: float | None = None) -> None:
        self._index = index
        self.name = f"MaxSim with {index.manifest.checkpoint['name']}"
        self.default_threshold = default_threshold
        self.scale = "sums of cosines over query tokens"
        self._memory: Memory[tuple[str, str], float] = Memory(_KEPT_PAIRS)

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The MaxSim of each (query, text); 0 for a blank query."""
        return self._memory.get(pairs, self._score)

    def _score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        from knowgap.retrieval.colbert.maxsim import TokenVectors

        texts = list(dict.fromkeys(text for _, text in pairs))
        row = {text: i for i, text in enumerate(texts)}
        encoder = self._index.encoder
        vectors = TokenVectors(*encoder.encode_passages(texts))
        wanted: dict[str, list[str]] = {}
        for query, text in pairs:
            wanted.setdefault(query, []).append(text)
        scores: dict[tuple[str, str], float] = {}
        for query, mine in wanted.items():
            if query.strip():
                values = vectors.rescore(encoder.encode_query(query), np.array([row[text] for text in mine])).tolist()
            else:
                values = [0.0] * len(mine)
            scores |= {(query, text): value for text, value in zip(mine, values, strict=True)}
        return [scores[pair] for pair in pairs]

    def __deepcopy__(self, memo: dict[int, Any]) -> MaxSimReranker:
        return self


def make_reranker(name: str | Path, *, device: str | None = None) -> Reranker:
    """The reranker of a name: `embedded`, or a cross-encoder's folder or hub name.

    Raises:
        CheckpointError: no such model.
    """
    return EmbeddedReranker() if str(name) == "embedded" else CrossEncoderReranker(name, device=device)
