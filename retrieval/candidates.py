"""Retrieval among a few given passages: a question's own paragraphs, as in RQ-RAG's multi-hop setting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from knowgap.retrieval.index.passage_store import MemoryStore
from knowgap.retrieval.passage import Hit, NeverCopied, Passage, check_k, rank_hits

if TYPE_CHECKING:
    from knowgap.retrieval.rerankers.reranker import Reranker


class CandidateRetriever(NeverCopied):
    """Searches given passages only, by scoring each of them against the query.

    Args:
        passages: the candidates.
        reranker: the model that scores them; None takes the embedded one. `within` scores them as an index does.

    Raises:
        DataError: two candidates have the same id.
    """

    def __init__(self, passages: Iterable[Passage], *, reranker: Reranker | None = None) -> None:
        self._passages = list(MemoryStore(passages))
        if reranker is None:
            from knowgap.retrieval.rerankers.relevance import EmbeddedReranker

            reranker = EmbeddedReranker()
        self._reranker = reranker

    @staticmethod
    def within(index: Any, ids: Iterable[str]) -> RestrictedRetriever:
        """A retriever over the passages with these ids of an `index` that can search by ids; it ignores unknown ids."""
        return RestrictedRetriever(index, ids)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The `k` best candidates for each query; none for a blank one.

        Raises:
            ValueOutOfBounds: k < 1.
        """
        check_k(k)
        distinct = [query for query in dict.fromkeys(queries) if query.strip()]
        pairs = [(query, str(passage)) for query in distinct for passage in self._passages]
        scores = iter(self._reranker.score(pairs))
        hits = {query: rank_hits([(passage, next(scores)) for passage in self._passages], k) for query in distinct}
        return [list(hits.get(query, [])) for query in queries]


class RestrictedRetriever(NeverCopied):
    """A retriever over some passages of an index. Made by `CandidateRetriever.within`."""

    def __init__(self, index: Any, ids: Iterable[str]) -> None:
        self._index, self._ids = index, frozenset(ids)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The `k` best of these passages for each query, as the index scores them."""
        return self._index.search(queries, k, ids=self._ids)
