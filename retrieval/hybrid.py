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
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.index.passage_store import Positions
from knowgap.retrieval.index.snapshot import Snapshot
from knowgap.retrieval.index.vectors import nearest
from knowgap.retrieval.passage import Hit, Passage, rank_hits
from knowgap.retrieval.window import Encoder
from knowgap.retrieval.words import Analyzer
from knowgap.storage.progress import Progress

SHARE = 0.5
_RRF_CONSTANT = 60


class HybridIndex(ColBERTIndex):
    """An index of passages by their words and the vectors of their tokens. Made by `build` or `open`; thread-safe."""

    engine: ClassVar[str] = "hybrid"

    def __init__(
        self, path: Path, manifest: Manifest, checkpoint: str | Path | None = None, device: str | None = None
    ) -> None:
        super().__init__(path, manifest, checkpoint, device)
        self._analyzer = Analyzer(manifest.settings["stemmer"])

    @classmethod
    def build(
        cls,
        passages: Iterable[Passage],
        path: str | Path,
        *,
        checkpoint: str | Path | None = None,
        dim: int | None = None,
        stemmer: str | None = "english",
        device: str | None = None,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> Self:
        """Encode passages, count their words and write an index, or continue an interrupted call.

        Args:
            passages: what to index; read once. Title and text are indexed together.
            path: the folder; if it already holds the same index, that is opened.
            checkpoint: see `ColBERTIndex.build`.
            dim: see `ColBERTIndex.build`.
            stemmer: a Snowball language of PyStemmer, or None; see `BM25Index.build`.
            device: where to encode; None takes a CUDA GPU if there is one.
            overwrite: replace another index at the path.
            progress: called after each chunk of passages.

        Raises:
            DataError: there are no passages, or two with the same id.
            CheckpointError: no such checkpoint, or a damaged one.
            ValueOutOfBounds: dim, stemmer or device is not allowed.
            UsageError: another index is at the path.
        """
        words = word_settings(stemmer=stemmer)
        return cls._build(passages, path, checkpoint, dim, device, words, overwrite=overwrite, progress=progress)

    def _score(
        self, snapshot: Snapshot, encoder: Encoder, query: str, k: int, admitted: Positions
    ) -> tuple[Positions, npt.NDArray[np.floating]]:
        vectors = encoder.encode_query(query)
        weight = float(np.linalg.norm(vectors, axis=1).sum())  # MaxSim if each token of the query is in the passage
        shares = snapshot.words.shares(self._analyzer.query(query))
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
