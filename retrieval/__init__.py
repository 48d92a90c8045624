"""Where passages come from: indexes, rerankers, entailment models and sentences.

Names are resolved when they are first used, so that importing this package loads none of the libraries beneath.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knowgap.retrieval.bm25 import BM25Index
    from knowgap.retrieval.candidates import CandidateRetriever
    from knowgap.retrieval.colbert import ColBERTIndex
    from knowgap.retrieval.dense import DenseIndex
    from knowgap.retrieval.entailment import (
        EmbeddedEntailment,
        EntailmentModel,
        NLICrossEncoder,
        T5TrueNLI,
        make_entailment,
    )
    from knowgap.retrieval.hybrid import HybridIndex, HybridRetriever
    from knowgap.retrieval.manifest import Manifest, open_index
    from knowgap.retrieval.passage import Hit, Passage, Retriever
    from knowgap.retrieval.qdrant import QdrantIndex
    from knowgap.retrieval.remote import RemoteRetriever
    from knowgap.retrieval.rerank import CrossEncoderReranker, EmbeddedReranker, MaxSimReranker, Reranker, make_reranker
    from knowgap.retrieval.sentences import split_sentences
    from knowgap.retrieval.serve import IndexServer
    from knowgap.retrieval.snapshot import SearchSettings
    from knowgap.retrieval.store import PassageStore

__all__ = [
    "BM25Index",
    "CandidateRetriever",
    "ColBERTIndex",
    "CrossEncoderReranker",
    "DenseIndex",
    "EmbeddedEntailment",
    "EmbeddedReranker",
    "EntailmentModel",
    "Hit",
    "HybridIndex",
    "HybridRetriever",
    "IndexServer",
    "Manifest",
    "MaxSimReranker",
    "NLICrossEncoder",
    "Passage",
    "PassageStore",
    "QdrantIndex",
    "RemoteRetriever",
    "Reranker",
    "Retriever",
    "SearchSettings",
    "T5TrueNLI",
    "make_entailment",
    "make_reranker",
    "open_index",
    "split_sentences",
]

_MODULES = {
    "BM25Index": "bm25",
    "CandidateRetriever": "candidates",
    "ColBERTIndex": "colbert",
    "CrossEncoderReranker": "rerank",
    "DenseIndex": "dense",
    "EmbeddedEntailment": "entailment",
    "EmbeddedReranker": "rerank",
    "EntailmentModel": "entailment",
    "Hit": "passage",
    "HybridIndex": "hybrid",
    "HybridRetriever": "hybrid",
    "IndexServer": "serve",
    "Manifest": "manifest",
    "MaxSimReranker": "rerank",
    "NLICrossEncoder": "entailment",
    "Passage": "passage",
    "PassageStore": "store",
    "QdrantIndex": "qdrant",
    "RemoteRetriever": "remote",
    "Reranker": "rerank",
    "Retriever": "passage",
    "SearchSettings": "snapshot",
    "T5TrueNLI": "entailment",
    "make_entailment": "entailment",
    "make_reranker": "rerank",
    "open_index": "manifest",
    "split_sentences": "sentences",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
