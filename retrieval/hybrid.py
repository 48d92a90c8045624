"""Words and late interaction in one index, and the fusion of ranked lists.

A hybrid index ranks passages by one score: the mean cosine by which late interaction finds the query's tokens in the
passage, plus `SHARE` times the share of the query's words that the passage has. A word counts by the square of its
rarity in the collection: a part number, an error code or a name that few passages have decides, and words that many
have hardly matter. The square and the factor are those with which most gold paragraphs are among the first five on the
training sets of HotpotQA and 2WikiMultihopQA, and most codes come first among paragraphs of an encyclopedia.
`python benchmarks/run.py retrieval --parts gold codes` prints what they find on other questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from knowgap.retrieval.bm25 import word_settings
from knowgap.retrieval.colbert.index import ColBERTIndex
from knowgap.retrieval.index.folder_index import write_segment
from knowgap.retrieval.index.passage_store import Positions
from knowgap.retrieval.index.snapshot import Snapshot
from knowgap.retrieval.index.vectors import nearest
from knowgap.retrieval.passage import Hit, Passage, rank_hits
from knowgap.retrieval.window import Encoder
from knowgap.storage.progress import Progress

SHARE = 0.5
_RRF_CONSTANT = 60


class HybridIndex(ColBERTIndex):
    """An index of passages by their words and the vectors of their tokens. Made by `build` or `open`; thread-safe."""

    engine: ClassVar[str] = "hybrid"

    @classmethod
    def build(
        cls,
        passages: Iterable[Passage],
        path: str | Path,
        *,
        encoder: str | Path | None = None,
        stemmer: str | None = "english",
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> Self:
        """Encode passages, count their words and write an index; as `ColBERTIndex.build`, but for the words.

        `stemmer` is a Snowball language of PyStemmer, or None; `ValueOutOfBounds` is raised for another.
        """
        words = word_settings(stemmer=stemmer)
        cls._build(passages, path, words, write_segment, encoder=encoder, overwrite=overwrite, progress=progress)
        return cls.open(path, encoder=encoder)

    def _score(
        self, snapshot: Snapshot, encoder: Encoder, query: str, k: int, admitted: Positions
    ) -> tuple[Positions, npt.NDArray[np.floating]]:
        vectors = encoder.encode_query(query)
        weight = float(np.linalg.norm(vectors, axis=1).sum())  # MaxSim if each token of the query is in the passage
        shares = snapshot.words.shares(snapshot.analyzer.query(query))
        positions, scores = nearest(snapshot.vectors, vectors, k, admitted, np.float32(SHARE * weight) * shares)
        return positions, scores / weight


def fuse(lists: Sequence[Sequence[Hit]], k: int) -> list[Hit]:
    """Reciprocal rank fusion of ranked lists: the `k` passages with the highest sums of 1 / (60 + rank).

    Cormack, Clarke and Büttcher 2009.
    """
    scores: dict[str, float] = {}
    passages: dict[str, Passage] = {}
    for hits in lists:
        for hit in hits:
            passages[hit.passage.id] = hit.passage
            scores[hit.passage.id] = scores.get(hit.passage.id, 0.0) + 1 / (_RRF_CONSTANT + hit.rank)
    # Rounding keeps ties: sums of the same terms in different orders may differ in the last digit.
    return rank_hits(((passages[identifier], round(score, 12)) for identifier, score in scores.items()), k)
