"""The cache of scores that rerankers and entailment models have in common."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from knowgap.retrieval.lru_cache import LRUCache
from knowgap.retrieval.passage import NeverCopied

__all__ = ["PairScorer", "cached"]

ScorePairs = TypeVar("ScorePairs", bound=Callable[[Any, Sequence[tuple[str, str]]], list[float]])
_CACHED_PAIRS = 262_144


class PairScorer(NeverCopied):
    """Base of models that score pairs of texts."""

    def __init__(self) -> None:
        self.cache: LRUCache[tuple[str, str], float] = LRUCache(_CACHED_PAIRS)


def cached(compute: ScorePairs) -> ScorePairs:
    """Decorate a method of a `PairScorer` so that it computes distinct pairs only, and only those not in the cache."""

    @functools.wraps(compute)
    def score(self: PairScorer, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return self.cache.get(pairs, functools.partial(compute, self))

    return cast("ScorePairs", score)
