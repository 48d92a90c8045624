"""The four engines of indexes in folders, which differ in how a passage is scored.

`bm25` sums weights of the query's words. `colbert` sums, over the query's tokens, the highest cosine to a token of the
passage (MaxSim); `dense` compares one vector for each passage. `hybrid`, the default, adds the two kinds of evidence:
the mean cosine by which late interaction finds the query's tokens in the passage, plus `SHARE` times the share of the
query's words that the passage has. A word counts by the square of its rarity in the collection: a part number, an error
code or a name that few passages have decides, and words that many have hardly matter. The square and the factor are
those with which most gold paragraphs are among the first five on the training sets of HotpotQA and 2WikiMultihopQA, and
most codes come first among paragraphs of an encyclopedia. `python benchmarks/run.py retrieval --parts gold codes`
prints what they find on other questions.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from knowgap.retrieval.index.folder_index import Encoder, FolderIndex
from knowgap.retrieval.index.passage_store import Positions
from knowgap.retrieval.index.snapshot import Snapshot
from knowgap.retrieval.index.vectors import nearest
from knowgap.retrieval.passage import Passage

SHARE = 0.5


class BM25Index(FolderIndex):
    """A BM25 index of passages (`knowgap.retrieval.postings`). Made by `build`, `open` or `from_passages`.

    A query without a word of the corpus has no hits, and a passage without a word of the query is never a hit.
    """

    engine: ClassVar[str] = "bm25"
    has_words: ClassVar[bool] = True

    @classmethod
    def from_passages(cls, passages: Iterable[Passage], *, stemmer: str | None = "english") -> Self:
        """An index in a temporary folder, which is removed with the object; arguments and errors as for `build`."""
        folder = Path(tempfile.mkdtemp(prefix="knowgap-"))
        try:
            index = cls.build(passages, folder / "index", stemmer=stemmer)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(index, shutil.rmtree, folder, ignore_errors=True)
        return index

    def _score(
        self, snapshot: Snapshot, encoder: None, query: str, k: int, admitted: Positions
    ) -> tuple[Positions, npt.NDArray[np.floating]]:
        scores = snapshot.words.scores(snapshot.analyzer.query(query))[admitted]
        return admitted[scores > 0], scores[scores > 0]


class ColBERTIndex(FolderIndex):
    """An index of passages by the vectors of their tokens (Khattab and Zaharia 2020). Made by `build` or `open`.

    Its encoder is a ColBERT checkpoint by folder or hub name (`colbert-ir/colbertv2.0`). None makes one from the
    embedded MiniLM encoder and the corpus, without the network, and saves it inside the index.
    """

    engine: ClassVar[str] = "colbert"
    encoders: ClassVar[str] = "knowgap.retrieval.colbert.encoder:TokenEncoder"

    def _score(
        self, snapshot: Snapshot, encoder: Encoder, query: str, k: int, admitted: Positions
    ) -> tuple[Positions, npt.NDArray[np.floating]]:
        return nearest(snapshot.vectors, encoder.encode_query(query), k, admitted)


class DenseIndex(ColBERTIndex):
    """An index with one vector for each passage (Karpukhin et al. 2020, "DPR"). Made by `build` or `open`.

    Its encoder is a bi-encoder of sentence-transformers by folder or hub name (`facebook/contriever`); or a function
    from texts to vectors, such as `dspy.Embedder("openai/text-embedding-3-large")`; `UsageError` is raised if it does
    not return vectors. None takes the embedded MiniLM encoder.
    """

    engine: ClassVar[str] = "dense"
    encoders: ClassVar[str] = "knowgap.retrieval.dense:DenseEncoder"


class HybridIndex(ColBERTIndex):
    """An index of passages by their words and the vectors of their tokens. Made by `build` or `open`.

    Its encoder is as for `ColBERTIndex`.
    """

    engine: ClassVar[str] = "hybrid"
    has_words: ClassVar[bool] = True

    def _score(
        self, snapshot: Snapshot, encoder: Encoder, query: str, k: int, admitted: Positions
    ) -> tuple[Positions, npt.NDArray[np.floating]]:
        vectors = encoder.encode_query(query)
        weight = float(np.linalg.norm(vectors, axis=1).sum())  # MaxSim if each token of the query is in the passage
        shares = snapshot.words.shares(snapshot.analyzer.query(query))
        positions, scores = nearest(snapshot.vectors, vectors, k, admitted, np.float32(SHARE * weight) * shares)
        return positions, scores / weight
