"""The engines of indexes, and the opening of an index of any engine. Four of them score the passages of a folder.

`bm25` sums weights of the query's words. `colbert` sums, over the query's tokens, the highest cosine to a token of the
passage (MaxSim); `dense` compares one vector for each passage. `hybrid`, the default, adds the two kinds of evidence:
the mean cosine by which late interaction finds the query's tokens in the passage, plus half the share of the
query's words that the passage has. A word counts by the square of its rarity in the collection: a part number, an error
code or a name that few passages have decides, and words that many have hardly matter. The square and the factor are
those with which most gold paragraphs are among the first five on the training sets of HotpotQA and 2WikiMultihopQA, and
most codes come first among paragraphs of an encyclopedia. `python benchmarks/run.py retrieval --parts gold codes`
prints what they find on other questions.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from pkgutil import resolve_name
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from typing_extensions import Self

from knowgap.errors import UnknownName, UsageError, is_address, shorten
from knowgap.plugins import make
from knowgap.retrieval.index.folder_index import FolderIndex
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.outside import RemoteRetriever, open_outside
from knowgap.retrieval.passage import Passage, Retriever


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
        with ExitStack() as until_then:
            folder = until_then.enter_context(TemporaryDirectory(prefix="knowgap-", ignore_cleanup_errors=True))
            index = cls.build(passages, Path(folder) / "index", **options)
            weakref.finalize(index, until_then.pop_all().close)
            return index


class ColBERTIndex(FolderIndex):
    """An index of passages by the vectors of their tokens (Khattab and Zaharia 2020).

    Its encoder is a ColBERT checkpoint by folder or hub name (`colbert-ir/colbertv2.0`). None makes one from the
    embedded MiniLM encoder and the corpus, without the network, and saves it inside the index.
    """

    engine: ClassVar[str] = "colbert"
    encoders: ClassVar[str] = "knowgap.retrieval.colbert:TokenEncoder"


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
        found = open_outside(retriever)
        found = make("retriever", retriever, Retriever) if found is None else found
        return open_index(retriever) if found is None else found
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
    return resolve_name(ENGINES[engine])
