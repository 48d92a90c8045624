"""Where passages come from: indexes, rerankers, entailment models and sentences.

Modules are imported when one of their names is first used, and with them their libraries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowgap.lazy import export_lazily

if TYPE_CHECKING:
    from knowgap.retrieval.bm25 import BM25Index as BM25Index
    from knowgap.retrieval.candidates import CandidateRetriever as CandidateRetriever
    from knowgap.retrieval.colbert.index import ColBERTIndex as ColBERTIndex
    from knowgap.retrieval.dense import DenseIndex as DenseIndex
    from knowgap.retrieval.entailment.cross_encoder import NLICrossEncoder as NLICrossEncoder
    from knowgap.retrieval.entailment.embedded import EmbeddedEntailment as EmbeddedEntailment
    from knowgap.retrieval.entailment.model import EntailmentModel as EntailmentModel
    from knowgap.retrieval.entailment.model import make_entailment as make_entailment
    from knowgap.retrieval.entailment.t5 import T5TrueNLI as T5TrueNLI
    from knowgap.retrieval.hybrid import HybridIndex as HybridIndex
    from knowgap.retrieval.hybrid import HybridRetriever as HybridRetriever
    from knowgap.retrieval.index.engines import open_index as open_index
    from knowgap.retrieval.index.manifest import Manifest as Manifest
    from knowgap.retrieval.index.passage_store import PassageStore as PassageStore
    from knowgap.retrieval.index.search_settings import SearchSettings as SearchSettings
    from knowgap.retrieval.passage import Hit as Hit
    from knowgap.retrieval.passage import Passage as Passage
    from knowgap.retrieval.passage import Retriever as Retriever
    from knowgap.retrieval.passage import rank_hits as rank_hits
    from knowgap.retrieval.qdrant.index import QdrantIndex as QdrantIndex
    from knowgap.retrieval.remote import RemoteRetriever as RemoteRetriever
    from knowgap.retrieval.rerankers.cross_encoder import CrossEncoderReranker as CrossEncoderReranker
    from knowgap.retrieval.rerankers.embedded import EmbeddedReranker as EmbeddedReranker
    from knowgap.retrieval.rerankers.maxsim import MaxSimReranker as MaxSimReranker
    from knowgap.retrieval.rerankers.reranker import Reranker as Reranker
    from knowgap.retrieval.rerankers.reranker import make_reranker as make_reranker
    from knowgap.retrieval.sentences import split_sentences as split_sentences
else:
    __all__, __getattr__, __dir__ = export_lazily(__name__)
