"""The engines of indexes, and the opening of an index of any engine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from knowgap.errors import UnknownName, UsageError, is_address, shorten
from knowgap.plugins import make
from knowgap.retrieval.index.base import named
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.outside import RemoteRetriever, open_outside
from knowgap.retrieval.passage import Passage, Retriever

ENGINES = {
    "bm25": "knowgap.retrieval.indexes:BM25Index",
    "colbert": "knowgap.retrieval.indexes:ColBERTIndex",
    "dense": "knowgap.retrieval.indexes:DenseIndex",
    "hybrid": "knowgap.retrieval.indexes:HybridIndex",
    "plaid": "knowgap.retrieval.plaid:PlaidIndex",
    "qdrant": "knowgap.retrieval.qdrant:QdrantIndex",
}
"""Engine name → `module:class`; the class has `open(path)`."""


def open_index(path: str | Path, **options: Any) -> Retriever:
    """Open an index of any engine.

    The encoder that it names has to be a folder or to have been fetched before, unless it is a model on the Hugging
    Face hub that the environment variable KNOWGAP_ALLOW_HUB names.

    Args:
        path: its folder.
        options: passed to the `open` of its engine.

    Raises:
        IndexMissing: nothing is at that path.
        IndexForeign: something else is there, or an index of another format.
        IndexDamaged: a file of the index is missing or damaged.

    >>> import knowgap
    >>> towns = [knowgap.Passage("tarn", "Tarn", "A town on the Lome.")]
    >>> index = knowgap.build_index(towns, "more-towns", engine="bm25")
    >>> len(knowgap.open_index("more-towns"))
    1
    """
    return engine_class(Manifest.parse(path).engine).open(path, **options)


def as_retriever(retriever: Any) -> Any:
    """Open the index in a folder or at an http(s) URL; a retriever, or None, is returned as it is.

    A string may also name an index of another tool, see `open_outside`; `module:Name` of a retriever, or of a callable
    that makes one; or `module:Name:TEXT`, which calls it with a text.

    Raises:
        IndexFolderError: the index in the folder cannot be opened.
        UsageError: it is no retriever, or cannot be imported or made.
    """
    if isinstance(retriever, (str, Path)):
        if is_address(str(retriever)):
            return RemoteRetriever(str(retriever))
        found = open_outside(retriever) or make("retriever", retriever, Retriever)
        return found or open_index(retriever)
    if retriever is None or isinstance(retriever, Retriever):
        return retriever
    raise UsageError(f"an index, its folder or the URL of its server, not {shorten(repr(retriever), 60)}")


def open_or_build(path: str | Path, passages: Iterable[Passage], engine: str, *, progress: Any = None) -> Retriever:
    """Open the index in a folder; if there is none, build it from the passages first."""
    if Path(path).exists():
        return open_index(path)
    return engine_class(engine).build(passages, path, progress=progress)


def engine_class(engine: str) -> Any:
    """The class of an engine, with `build` and `open`.

    Raises:
        UnknownName: there is no such engine.
    """
    if engine not in ENGINES:
        raise UnknownName.among("engine", engine, ENGINES)
    return named(ENGINES[engine])
