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
from typing import Any, ClassVar

from typing_extensions import Self

from knowgap.retrieval.index.folder_index import FolderIndex
from knowgap.retrieval.passage import Passage


class BM25Index(FolderIndex):
    """An index of passages by their words (`knowgap.retrieval.postings`).

    A query without a word of the corpus has no hits, and a passage without a word of the query is never a hit. The
    setting `stemmer` is the language of the words: a Snowball language of PyStemmer, or None.
    """

    engine: ClassVar[str] = "bm25"
    options: ClassVar[dict[str, Any]] = {"stemmer": "english"}

    @classmethod
    def from_passages(cls, passages: Iterable[Passage], **options: Any) -> Self:
        """An index in a temporary folder, which is removed with the object; arguments and errors as for `build`."""
        folder = Path(tempfile.mkdtemp(prefix="knowgap-"))
        index = cls.build(passages, folder / "index", **options)
        weakref.finalize(index, shutil.rmtree, folder, ignore_errors=True)
        return index


class ColBERTIndex(FolderIndex):
    """An index of passages by the vectors of their tokens (Khattab and Zaharia 2020).

    Its encoder is a ColBERT checkpoint by folder or hub name (`colbert-ir/colbertv2.0`). None makes one from the
    embedded MiniLM encoder and the corpus, without the network, and saves it inside the index.
    """

    engine: ClassVar[str] = "colbert"
    encoders: ClassVar[str] = "knowgap.retrieval.colbert.encoder:TokenEncoder"


class DenseIndex(FolderIndex):
    """An index with one vector for each passage (Karpukhin et al. 2020, "DPR").

    Its encoder is a bi-encoder of sentence-transformers by folder or hub name (`facebook/contriever`); or a function
    from texts to vectors, such as `dspy.Embedder("openai/text-embedding-3-large")`. None takes the embedded MiniLM
    encoder.
    """

    engine: ClassVar[str] = "dense"
    encoders: ClassVar[str] = "knowgap.retrieval.dense:DenseEncoder"


class HybridIndex(ColBERTIndex):
    """An index of passages by their words and the vectors of their tokens.

    Its encoder is as for `ColBERTIndex`, and its setting `stemmer` as for `BM25Index`.
    """

    engine: ClassVar[str] = "hybrid"
    options: ClassVar[dict[str, Any]] = BM25Index.options
