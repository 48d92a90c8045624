"""Where passages come from: indexes, rerankers, entailment models and sentences.

Names are resolved when they are first used, so that importing this package loads none of the libraries beneath.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knowgap.retrieval.bm25 import BM25Index
    from knowgap.retrieval.colbert import ColBERTIndex
    from knowgap.retrieval.manifest import Manifest, open_index
    from knowgap.retrieval.passage import Hit, Passage, Retriever
    from knowgap.retrieval.sentences import split_sentences
    from knowgap.retrieval.store import PassageStore

__all__ = [
    "BM25Index",
    "ColBERTIndex",
    "Hit",
    "Manifest",
    "Passage",
    "PassageStore",
    "Retriever",
    "open_index",
    "split_sentences",
]

_MODULES = {
    "BM25Index": "bm25",
    "ColBERTIndex": "colbert",
    "Hit": "passage",
    "Manifest": "manifest",
    "Passage": "passage",
    "PassageStore": "store",
    "Retriever": "passage",
    "open_index": "manifest",
    "split_sentences": "sentences",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
