"""Search of a retriever by programs and commands, within all of its documents or only some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

from knowgap.errors import UsageError
from knowgap.retrieval.documents.sources import sources_of
from knowgap.retrieval.passage import Hit, Retriever

_IDS: ContextVar[frozenset[str] | None] = ContextVar("ids of passages that are searched", default=None)


def search_all(retriever: Retriever, queries: Sequence[str], k: int) -> list[list[Hit]]:
    """The hits of a retriever for each query, within the documents of `only_documents`."""
    ids, search = _IDS.get(), retriever.search
    some: dict[str, Any] = {} if ids is None else {"ids": ids}
    return search(list(queries), k, **some)


def only_documents(retriever: Any, files: Sequence[str]) -> AbstractContextManager[None]:
    """Search only some documents of an index in the block, and in threads that take over its context.

    `files` are paths in the folder that was indexed, folders above files, or patterns; none stand for all documents.

    Raises:
        UsageError: the index has not recorded its files or cannot search a part of itself, or no file is wanted.
        IndexMissing: no document has been read yet.
    """
    return only_passages(passages_of(retriever, files))


def passages_of(retriever: Any, files: Sequence[str]) -> frozenset[str] | None:
    """The ids of the passages of some documents of an index; None for all documents. This may take seconds.

    Raises:
        UsageError, IndexMissing: as for `only_documents`.
    """
    if not files:
        return None
    if retriever is not None:
        retriever.search([], 1)  # says so if no document has been read yet
    sources = sources_of(retriever)
    if not (ids := sources.ids(files) if sources is not None else None):
        raise UsageError(
            f"no document of the index is {' or '.join(files)}: a file is named by its path in the folder of documents"
        )
    return ids


@contextmanager
def only_passages(ids: frozenset[str] | None) -> Iterator[None]:
    """Search only a part of an index in the block, as `only_documents` does; `ids` are a result of `passages_of`."""
    token = _IDS.set(ids)
    try:
        yield
    finally:
        _IDS.reset(token)
