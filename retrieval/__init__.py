"""Where passages come from: indexes, rerankers, entailment models and sentences.

Names are resolved when they are first used, so that importing this package loads none of the libraries beneath.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knowgap.retrieval.bm25 import BM25Index
    from knowgap.retrieval.candidates import CandidateRetriever
    from knowgap.retrieval.colbert.index import ColBERTIndex
    from knowgap.retrieval.dense import DenseIndex
    from knowgap.retrieval.entailment.cross_encoder import NLICrossEncoder
    from knowgap.retrieval.entailment.embedded import EmbeddedEntailment
    from knowgap.retrieval.entailment.model import EntailmentModel, make_entailment
    from knowgap.retrieval.entailment.t5 import T5TrueNLI
    from knowgap.retrieval.http.client import RemoteRetriever
    from knowgap.retrieval.http.server import IndexServer
    from knowgap.retrieval.hybrid import HybridIndex, HybridRetriever
    from knowgap.retrieval.index.engines import open_index
    from knowgap.retrieval.index.manifest import Manifest
    from knowgap.retrieval.index.passage_store import PassageStore
    from knowgap.retrieval.index.search_settings import SearchSettings
    from knowgap.retrieval.passage import Hit, Passage, Retriever
    from knowgap.retrieval.qdrant.index import QdrantIndex
    from knowgap.retrieval.rerankers.cross_encoder import CrossEncoderReranker
    from knowgap.retrieval.rerankers.embedded import EmbeddedReranker
    from knowgap.retrieval.rerankers.maxsim import MaxSimReranker
    from knowgap.retrieval.rerankers.reranker import Reranker, make_reranker
    from knowgap.retrieval.sentences import split_sentences

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
    "ColBERTIndex": "colbert.index",
    "CrossEncoderReranker": "rerankers.cross_encoder",
    "DenseIndex": "dense",
    "EmbeddedEntailment": "entailment.embedded",
    "EmbeddedReranker": "rerankers.embedded",
    "EntailmentModel": "entailment.model",
    "Hit": "passage",
    "HybridIndex": "hybrid",
    "HybridRetriever": "hybrid",
    "IndexServer": "http.server",
    "Manifest": "index.manifest",
    "MaxSimReranker": "rerankers.maxsim",
    "NLICrossEncoder": "entailment.cross_encoder",
    "Passage": "passage",
    "PassageStore": "index.passage_store",
    "QdrantIndex": "qdrant.index",
    "RemoteRetriever": "http.client",
    "Reranker": "rerankers.reranker",
    "Retriever": "passage",
    "SearchSettings": "index.search_settings",
    "T5TrueNLI": "entailment.t5",
    "make_entailment": "entailment.model",
    "make_reranker": "rerankers.reranker",
    "open_index": "index.engines",
    "split_sentences": "sentences",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
