"""BM25: passages are scored by the words that they share with the query, weighted by rarity.

The k1 and b are those that Pyserini uses for Wikipedia passages. Words are lower-cased and stemmed; a character of a
script without spaces is a word. A title counts twice, and the function words of an English query are left out: both
find more of the gold paragraphs of HotpotQA, 2WikiMultihopQA and StrategyQA.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from knowgap.errors import ValueOutOfBounds
from knowgap.retrieval.index.folder_index import FolderIndex, write_segment
from knowgap.retrieval.index.passage_store import Positions
from knowgap.retrieval.index.snapshot import Snapshot
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.words import Analyzer
from knowgap.storage.progress import Progress


class BM25Index(FolderIndex):
    """A BM25 index of passages, made by `build`, `open` or `from_passages`.

    A query without a word of the corpus has no hits, and a passage without a word of the query is never a hit.
    """

    engine: ClassVar[str] = "bm25"

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
    ) -> Self:
        """Write an index to a folder and open it.

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
        settings = word_settings(k1, b, stemmer, title_weight)
        cls._build(passages, path, settings, write_segment, overwrite=overwrite, progress=progress)
        return cls.open(path)

    @classmethod
    def from_passages(cls, passages: Iterable[Passage], **settings: Any) -> Self:
        """An index in a temporary folder, which is removed with the object; arguments and errors as for `build`."""
        folder = Path(tempfile.mkdtemp(prefix="knowgap-"))
        try:
            index = cls.build(passages, folder / "index", **settings)
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


def word_settings(
    k1: float = 0.9, b: float = 0.4, stemmer: str | None = "english", title_weight: int = 2
) -> dict[str, Any]:
    """The settings of words in an index; see `BM25Index.build`.

    Raises:
        ValueOutOfBounds: one of them is not allowed.
    """
    if not k1 >= 0:
        raise ValueOutOfBounds(f"k1 = {k1!r}: must be at least 0")
    if not 0 <= b <= 1:
        raise ValueOutOfBounds(f"b = {b!r}: must lie between 0 and 1")
    if title_weight < 0:
        raise ValueOutOfBounds(f"title_weight = {title_weight!r}: must be at least 0")
    Analyzer(stemmer)
    return {"k1": k1, "b": b, "stemmer": stemmer, "title_weight": title_weight}
