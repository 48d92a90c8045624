"""Results that trials, threads and cells of tables share: retrieved lists, scores of rerankers and entailment models.

The answers of language models are shared by DSPy's own cache. While a study or an experiment runs, its programs'
retrievers, rerankers and entailment models are wrapped, and each computes a result once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from knowgap.programs.base import Program
from knowgap.programs.passages import LMEntailment
from knowgap.retrieval.grounding import GroundingEntailment
from knowgap.retrieval.lru_cache import LRUCache
from knowgap.retrieval.passage import Hit

P = TypeVar("P", bound=Program)

_KEPT = 200_000  # results of one retriever or model


def share_results(programs: Mapping[str, P]) -> dict[str, P]:
    """Copies of programs, by name, whose retrievers and models look results up before they compute them.

    They share the results of an index that is the same object, and those of rerankers and entailment models if class,
    name and weights are the same.
    """
    memories: dict[Any, LRUCache[Any, Any]] = {}
    copies = {name: program.deepcopy() for name, program in programs.items()}
    for copy in copies.values():
        for attribute, part in copy.parts().items():
            apart = isinstance(part, (LMEntailment, GroundingEntailment))  # one asks the program's model, one is cheap
            if part is not None and attribute in ("retriever", "reranker", "entailment") and not apart:
                model = (type(part), getattr(part, "name", id(part)), getattr(part, "digest", ""))
                identity = id(part) if attribute == "retriever" else model
                setattr(copy, attribute, Cached(part, memories.setdefault(identity, LRUCache(_KEPT))))
    return copies


class Cached:
    """A retriever, reranker or entailment model that computes each result once, and delegates everything else.

    A shorter list is not cut from a longer one, since what an index finds may depend on `k`.
    """

    def __init__(self, wrapped: Any, memory: LRUCache[Any, Any]) -> None:
        self.wrapped, self.memory = wrapped, memory

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The `k` best passages for each query."""
        keys = [(query, k) for query in queries]
        lists = self.memory.get(keys, lambda missing: self.wrapped.search([query for query, _ in missing], k))
        return [[*hits] for hits in lists]

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The reranker's score of each (query, text)."""
        return self.memory.get([*map(tuple, pairs)], self.wrapped.score)

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The entailment model's probability for each (premise, hypothesis)."""
        return self.memory.get([*map(tuple, pairs)], self.wrapped.entails)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "wrapped":
            raise AttributeError(name)
        return getattr(self.wrapped, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self
