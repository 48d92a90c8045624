"""The interface of rerankers, and the base class with a cache of models that score pairs of texts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from knowgap.retrieval.lru_cache import LRUCache
from knowgap.retrieval.passage import NeverCopied
from knowgap.storage.files import file_digest, folder_digest

ScorePairs = TypeVar("ScorePairs", bound=Callable[[Any, Sequence[tuple[str, str]]], list[float]])
_CACHED_PAIRS = 262_144


@runtime_checkable
class Reranker(Protocol):
    """Scores how relevant a text is to a query, from both together.

    Attributes:
        name: the model.
        default_threshold: the score from which a text counts as relevant (MIGRES' δ), on this reranker's scale; None
            if unknown, in which case calibration sets it.
        scale: a description of the scores in words, without which a threshold has no meaning.
    """

    name: str
    default_threshold: float | None
    scale: str

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One raw score per (query, text) pair; higher is more relevant. Scores of known pairs are cached."""
        ...


class PairScorer(NeverCopied):
    """The base class of models that score pairs of texts; `weights` is the folder or file of the model's weights."""

    def __init__(self, weights: str | Path | None = None) -> None:
        self.cache: LRUCache[tuple[str, str], float] = LRUCache(_CACHED_PAIRS)
        self._weights_path = None if weights is None else Path(weights)

    @functools.cached_property
    def digest(self) -> str:
        """The SHA-256 of the weights, which tells scores of different trainings apart; empty for a model on the hub."""
        path = self._weights_path
        if path is None or not path.exists():
            return ""
        return folder_digest(path) if path.is_dir() else file_digest(path)


def cached(compute: ScorePairs) -> ScorePairs:
    """Decorate a method of a `PairScorer` so that it computes distinct pairs only, and only those not in the cache."""

    @functools.wraps(compute)
    def score(self: PairScorer, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return self.cache.get(pairs, functools.partial(compute, self))

    return cast("ScorePairs", score)


def is_bge_base(reranker: object) -> bool:
    """Whether a reranker, or its folder or hub name, is BGE-reranker-base, on whose logits MIGRES states thresholds."""
    return Path(str(getattr(reranker, "name", reranker))).name.casefold() == "bge-reranker-base"
