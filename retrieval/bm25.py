"""BM25: passages are scored by the words that they share with the query, weighted by rarity.

The scoring is Lucene's variant (Kamphuis et al. 2020, "Which BM25 do you mean?"), with the k1 and b that Pyserini
uses for Wikipedia passages. Words are lower-cased and stemmed; a character of a script without spaces is a word.
A title counts twice, and the function words of an English query are left out: both find more of the gold paragraphs
of HotpotQA, 2WikiMultihopQA and StrategyQA.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from knowgap.errors import DataError, ValueOutOfBounds
from knowgap.retrieval.index.build import start_build
from knowgap.retrieval.index.manifest import Manifest, Segment
from knowgap.retrieval.index.passage_store import (
    MemoryStore,
    PassageStore,
    Where,
    corpus_digest,
    scored_hits,
    select_positions,
)
from knowgap.retrieval.lexical import FUNCTION_WORDS, Stemmer, words
from knowgap.retrieval.passage import Hit, NeverCopied, Passage, check_k, not_split
from knowgap.retrieval.postings import Postings
from knowgap.storage.progress import Progress, no_progress


class Analyzer:
    """Reduces the words of a text to stems with a Snowball stemmer of PyStemmer; None leaves words as they are."""

    def __init__(self, stemmer: str | None) -> None:
        self._english = stemmer == "english"
        self._stem = list if stemmer is None else Stemmer(stemmer)

    def __call__(self, text: str) -> list[str]:
        """The stem of each word of a text."""
        return self._stem(words(text))

    def query(self, text: str) -> list[str]:
        """The stem of each word of a query; function words are left out unless there are no others."""
        if not self._english:
            return self(text)
        return self._stem([word for word in words(text) if word not in FUNCTION_WORDS]) or self(text)


class BM25Index(NeverCopied):
    """A BM25 index of passages, made by `build`, `open` or `from_passages`.

    A query without a word of the corpus has no hits, and a passage without a word of the query is never a hit.
    """

    def __init__(
        self, store: PassageStore | MemoryStore, postings: Postings, analyzer: Analyzer, manifest: Manifest
    ) -> None:
        self._store, self._postings, self._analyzer, self.manifest = store, postings, analyzer, manifest
        self.path: Path | None = store.folder.parent if isinstance(store, PassageStore) else None

    @classmethod
    def build(
        cls,
        passages: Iterable[Passage],
        path: str | Path,
        *,
        k1: float = 0.9,
        b: float = 0.4,
        stemmer: str | None = "english",
        title_weight: int = 2,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> BM25Index:
        """Write an index to a folder and open it. Memory stays bounded, however many passages there are.

        Args:
            passages: what to index; read once. Title and text are both searched.
            path: the folder; if it already holds the same index, that is opened.
            k1: term frequency saturation, at least 0; the higher, the more repetitions of a word count.
            b: length normalization, from 0 to 1; the higher, the more long passages are penalized.
            stemmer: a Snowball language of PyStemmer, or None.
            title_weight: how many times a title counts; 1 is plain BM25 over title and text, 0 leaves titles out.
            overwrite: replace another index at the path.
            progress: called now and then.

        Raises:
            DataError: there are no passages, or two with the same id.
            ValueOutOfBounds: k1, b, stemmer or title_weight is not allowed.
            UsageError: another index is at the path.
        """
        settings, analyzer = _settings(k1, b, stemmer, title_weight), Analyzer(stemmer)
        with start_build(path, overwrite=overwrite) as build:
            build.clear()
            store = build.store(passages)
            manifest = build.manifest("bm25", store, settings)
            if not build.already_built(manifest):
                _write_postings(store, analyzer, settings, build.segment / "bm25", progress or no_progress)
            build.finish(manifest)
        return cls.open(path)

    @classmethod
    def open(cls, path: str | Path) -> BM25Index:
        """Open an index that `build` wrote; its arrays are memory-mapped.

        Raises:
            IndexMissing, IndexForeign, IndexDamaged: see `Manifest.read`.
        """
        manifest = Manifest.read(path, engine="bm25")
        segment = Path(path) / manifest.segments[0].name
        return cls(PassageStore(segment), Postings(segment / "bm25"), Analyzer(manifest.settings["stemmer"]), manifest)

    @classmethod
    def from_passages(
        cls,
        passages: Iterable[Passage],
        *,
        k1: float = 0.9,
        b: float = 0.4,
        stemmer: str | None = "english",
        title_weight: int = 2,
    ) -> BM25Index:
        """An index in memory; arguments and errors as for `build`."""
        settings, analyzer = _settings(k1, b, stemmer, title_weight), Analyzer(stemmer)
        store = MemoryStore(passages)
        if not len(store):
            raise DataError("there are no passages to index")
        manifest = Manifest("bm25", (Segment("", len(store), corpus_digest(store)),), settings)
        with TemporaryDirectory() as folder:
            _write_postings(store, analyzer, settings, Path(folder) / "bm25", no_progress)
            postings = Postings(Path(folder) / "bm25", in_memory=True)
        return cls(store, postings, analyzer, manifest)

    @staticmethod
    def window_of(encoder: object) -> None:
        """Return None, since BM25 reads passages of any length."""

    def __len__(self) -> int:
        return len(self._store)

    def __iter__(self) -> Iterator[Passage]:
        return iter(self._store)

    def missing_ids(self, ids: Iterable[str]) -> list[str]:
        """The ids that belong neither to a passage nor to a document that was split into passages."""
        missing = [identifier for identifier in ids if self._store.position(identifier) is None]
        return not_split(missing, (passage.id for passage in self._store))

    def search(
        self, queries: Sequence[str], k: int, *, ids: Collection[str] | None = None, where: Where | None = None
    ) -> list[list[Hit]]:
        """The `k` best passages for each query, among those that share a word with it.

        Args:
            queries: any strings; one without words has no hits.
            k: at most this many hits, from 1.
            ids: search only the passages with these ids.
            where: search only the passages for which this is true.

        Raises:
            ValueOutOfBounds: k < 1.
        """
        check_k(k)
        allowed = select_positions(self._store, ids, where)
        found = [self._postings.search(self._analyzer.query(query), k, allowed) for query in queries]
        return [scored_hits(self._store, positions.astype(np.int64), scores, k) for positions, scores in found]


def _settings(k1: float, b: float, stemmer: str | None, title_weight: int) -> dict[str, Any]:
    if not k1 >= 0:
        raise ValueOutOfBounds(f"k1 = {k1!r}: must be at least 0")
    if not 0 <= b <= 1:
        raise ValueOutOfBounds(f"b = {b!r}: must lie between 0 and 1")
    if title_weight < 0:
        raise ValueOutOfBounds(f"title_weight = {title_weight!r}: must be at least 0")
    return {"k1": k1, "b": b, "stemmer": stemmer, "title_weight": title_weight}


def _write_postings(
    store: PassageStore | MemoryStore, analyzer: Analyzer, settings: dict[str, Any], folder: Path, progress: Progress
) -> None:
    folder.mkdir()
    documents = (analyzer(passage.title) * settings["title_weight"] + analyzer(passage.text) for passage in store)
    Postings.build(documents, folder, k1=settings["k1"], b=settings["b"], total=len(store), progress=progress)
