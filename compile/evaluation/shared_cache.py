"""Results that trials, threads and processes share: retrieved lists, scores of rerankers and entailment models.

The answers of language models are shared by DSPy's own cache. While a study or an experiment runs, its program's
retriever, reranker and entailment model are wrapped: results are kept in memory, and in a folder if one is named.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import dspy
import orjson

from knowgap.compiling.evaluation.provenance import retriever_facts, versions
from knowgap.errors import UsageError
from knowgap.lms.providers import OneThread, cache_replies
from knowgap.plugins import outside_facts
from knowgap.programs.base import Program
from knowgap.programs.statements import LMEntailment
from knowgap.retrieval.grounding import GroundingEntailment
from knowgap.retrieval.lru_cache import LRUCache
from knowgap.retrieval.passage import Hit, Passage

P = TypeVar("P", bound=Program)

_KEPT = 200_000  # results in memory, of one retriever or model


@contextmanager
def cache_results(program: P, folder: str | Path | None = None) -> Iterator[P]:
    """Yield a copy of a program whose retriever and models look results up before they compute them.

    Args:
        program: the program, which is not changed.
        folder: where results are shared with other processes; None keeps them in memory.

    Raises:
        UsageError: the folder cannot be used as a cache.
    """
    with share_results({"": program}, folder) as copies:
        yield copies[""]


@contextmanager
def share_results(programs: Mapping[str, P], folder: str | Path | None = None) -> Iterator[dict[str, P]]:
    """Like `cache_results`, for several programs by name, which share their results.

    Programs share an index's results if it has the same digest or is the same object, and the results of
    rerankers and entailment models if class, name and weights are the same.
    """
    cache = open_cache(folder) if folder is not None else None
    memories: dict[bytes, LRUCache[str, Any]] = {}
    copies = {name: program.deepcopy() for name, program in programs.items()}
    for copy in copies.values():
        for attribute, part in copy.parts().items():
            if isinstance(part, (GroundingEntailment, LMEntailment)):  # takes no time; depends on the language model
                continue
            if part is not None and attribute in ("retriever", "reranker", "entailment"):
                cached = Cached(part, cache)
                cached.memory = memories.setdefault(cached.identity, cached.memory)
                setattr(copy, attribute, cached)
    with closing(cache) if cache is not None else nullcontext():
        yield copies


def open_cache(folder: str | Path) -> OneThread:
    """Open the cache in a folder, which several processes may use at once; the errors are those of `cache_results`."""
    import diskcache

    path = Path(folder) / "results"
    with _usable(path):
        return OneThread(path, timeout=120, disk=diskcache.JSONDisk, eviction_policy="none", cull_limit=0)


@contextmanager
def _usable(path: str | Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise UsageError(f"{path} cannot be used as a cache ({error}): free some space, or remove it") from error


class Cached:
    """A retriever, reranker or entailment model that computes each result once, and delegates everything else.

    A shorter list is not cut from a longer one, since what an index finds may depend on `k`. The results of an index
    without a digest, or of a model without a name, are shared by no other object.
    """

    def __init__(self, wrapped: Any, cache: OneThread | None = None) -> None:
        self.wrapped, self._cache = wrapped, cache
        facts = retriever_facts(wrapped) if hasattr(wrapped, "search") else {}
        known = [type(wrapped).__name__, str(facts.get("digest") or (not facts and getattr(wrapped, "name", "")) or "")]
        known += [str(getattr(wrapped, "digest", "")), versions().get("knowgap", "")]
        known += [str(outside) for outside in outside_facts({"part": wrapped}).values()]
        if not known[1]:
            known, self._cache = [*known, str(id(wrapped))], None
        self.identity = orjson.dumps(known)
        self.memory: LRUCache[str, Any] = LRUCache(_KEPT)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The `k` best passages for each query."""

        def compute(missing: list[Any]) -> list[Any]:
            lists = self.wrapped.search([query for query, _ in missing], k)
            return [[[hit.passage.to_dict(), hit.score] for hit in hits] for hits in lists]

        lists = self._look_up([(query, k) for query in queries], compute)
        return [
            [Hit(Passage(**passage), score, rank) for rank, (passage, score) in enumerate(hits, start=1)]
            for hits in lists
        ]

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The reranker's score of each (query, text)."""
        return self._look_up(pairs, self.wrapped.score)

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The entailment model's probability for each (premise, hypothesis)."""
        return self._look_up(pairs, self.wrapped.entails)

    def _look_up(self, items: Sequence[Any], compute: Callable[[list[Any]], Sequence[Any]]) -> list[Any]:
        """The results of some items; `compute` is called once, with those whose result is not known."""
        keys = [hashlib.sha256(self.identity + orjson.dumps(item)).hexdigest() for item in items]
        by_key, cache = dict(zip(keys, items, strict=True)), self._cache

        def fetch(missing: list[str]) -> list[Any]:
            if cache is None:
                return [*compute([by_key[key] for key in missing])]
            with _usable(cache.directory):
                kept = {key: cache.get(key) for key in missing}
            if unknown := [key for key, result in kept.items() if result is None]:
                computed = dict(zip(unknown, compute([by_key[key] for key in unknown]), strict=True))
                with _usable(cache.directory):
                    cache.update(computed)
                kept |= computed
            return [kept[key] for key in missing]

        return self.memory.get(keys, fetch)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "wrapped":
            raise AttributeError(name)
        return getattr(self.wrapped, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self


@contextmanager
def lm_cache(folder: str | Path | None) -> Iterator[None]:
    """Let DSPy keep the answers of language models in a folder; None leaves its cache as it is."""
    if folder is None:
        yield
        return
    module: Any = dspy  # it makes its `cache` when that is first read
    before = module.cache
    cache_replies(folder)
    try:
        yield
    finally:
        module.cache.disk_cache.close()
        module.cache = before
