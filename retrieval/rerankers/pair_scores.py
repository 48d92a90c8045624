"""The cache of scores that rerankers and entailment models have in common."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from knowgap.retrieval.lru_cache import LRUCache
from knowgap.retrieval.passage import NeverCopied

ScorePairs = TypeVar("ScorePairs", bound=Callable[[Any, Sequence[tuple[str, str]]], list[float]])
_CACHED_PAIRS = 262_144


class PairScorer(NeverCopied):
    """Base of models that score pairs of texts."""

    def __init__(self) -> None:
        self.cache: LRUCache[tuple[str, str], float] = LRUCache(_CACHED_PAIRS)


def is_bge_base(reranker: object) -> bool:
    """Whether a reranker is BGE-reranker-base, on whose raw logits MIGRES states its thresholds (table 12).

    Args:
        reranker: a reranker, or its folder or hub name; compared by its last part, whatever the case.
    """
    return Path(str(getattr(reranker, "name", reranker))).name.casefold() == "bge-reranker-base"


def cached(compute: ScorePairs) -> ScorePairs:
    """Decorate a method of a `PairScorer` so that it computes distinct pairs only, and only those not in the cache."""

    @functools.wraps(compute)
    def score(self: PairScorer, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return self.cache.get(pairs, functools.partial(compute, self))

    return cast("ScorePairs", score)
