"""The engines of indexes, and how an index of any of them is opened."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from knowgap.errors import IndexForeign
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.index.search_settings import Quality, quality_refusal
from knowgap.retrieval.passage import Retriever

__all__ = ["ENGINES", "engine_class", "open_index", "takes_quality"]

ENGINES = {
    "bm25": "knowgap.retrieval.bm25:BM25Index",
    "colbert": "knowgap.retrieval.colbert.index:ColBERTIndex",
    "dense": "knowgap.retrieval.dense:DenseIndex",
    "hybrid": "knowgap.retrieval.hybrid:HybridIndex",
    "qdrant": "knowgap.retrieval.qdrant.index:QdrantIndex",
}
"""Engine name → `module:class`; the class has `open(path)`."""


def open_index(path: str | Path, *, quality: Quality | None = None, **options: Any) -> Retriever:
    """Open an index of any engine.

    Args:
        path: its folder.
        quality: how thoroughly a ColBERT index is searched: `fast`, `balanced`, `exact` or `SearchSettings`. None
            takes the engine's default.
        options: passed to the `open` of its engine.

    Raises:
        UnknownName: there is no quality of that name.
        UsageError: a quality for an index that is always searched in one way.
        IndexMissing: nothing is at that path.
        IndexForeign: something else is, or an index of an engine or format that this version does not know.
        IndexDamaged: an index that is not whole.
    """
    engine = Manifest.read(path).engine
    if engine not in ENGINES:
        raise IndexForeign(
            f"{path}: an index of the engine {engine!r}; this knowgap opens {', '.join(sorted(ENGINES))}"
        )
    opened = engine_class(engine)
    if quality is None:
        return opened.open(path, **options)
    if not takes_quality(engine):
        raise quality_refusal(path, quality)
    return opened.open(path, quality=quality, **options)


def engine_class(engine: str) -> Any:
    """The class of an engine, with `build` and `open`."""
    module, name = ENGINES[engine].split(":")
    return getattr(importlib.import_module(module), name)


def takes_quality(engine: str) -> bool:
    """Whether `open` of an engine takes a quality."""
    return getattr(engine_class(engine), "takes_quality", False)
