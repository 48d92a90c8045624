"""Words and late interaction in one index, and the fusion of any retrievers by rank.

A hybrid index ranks passages by one score: the mean cosine by which late interaction finds the query's tokens in the
passage, plus `SHARE` times the share of the query's words that the passage has. A word counts by the square of its
rarity in the collection: a part number, an error code or a name that few passages have decides, and words that many
have hardly matter. The square and the factor are those with which most gold paragraphs are among the first five on the
training sets of HotpotQA and 2WikiMultihopQA, and most codes come first among paragraphs of an encyclopedia.
`python benchmarks/run.py retrieval --parts gold codes` prints what they find on other questions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from knowgap.errors import ValueOutOfBounds
from knowgap.retrieval.bm25 import word_settings
from knowgap.retrieval.colbert.index import ColBERTIndex
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.index.passage_store import Positions, Where
from knowgap.retrieval.index.snapshot import Snapshot
from knowgap.retrieval.index.vectors import nearest
from knowgap.retrieval.passage import Hit, NeverCopied, Passage, Retriever, check_k, rank_hits
from knowgap.retrieval.window import Encoder
from knowgap.retrieval.words import Analyzer
from knowgap.storage.progress import Progress

SHARE = 0.5
RRF_CONSTANT = 60
_DEPTH = 100


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


def fuse(
    lists: Sequence[Sequence[Hit]], k: int, *, weights: Sequence[float] | None = None, constant: float = RRF_CONSTANT
) -> list[Hit]:
    """Reciprocal rank fusion of ranked lists: the `k` passages with the highest sums of weight / (constant + rank).

    Cormack, Clarke and Büttcher 2009. Each list has weight 1 unless `weights` is given. The larger the constant, the
    smaller the advantage of the first ranks; the paper uses `RRF_CONSTANT`, 60.
    """
    scores: dict[str, float] = {}
    passages: dict[str, Passage] = {}
    for hits, weight in zip(lists, weights or [1.0] * len(lists), strict=True):
        for hit in hits:
            passages[hit.passage.id] = hit.passage
            scores[hit.passage.id] = scores.get(hit.passage.id, 0.0) + weight / (constant + hit.rank)
    # Rounding keeps ties: sums of the same terms in different orders may differ in the last digit.
    return rank_hits(((passages[identifier], round(score, 12)) for identifier, score in scores.items()), k)


class HybridRetriever(NeverCopied):
    """Fuses the first hundred hits of several retrievers by rank; see `fuse`.

    Args:
        parts: the retrievers, over the same passages.
        weights: one for each part; None weights them equally.

    Raises:
        ValueOutOfBounds: there is not one weight for each part, a weight is negative, or all are 0.
    """

    def __init__(self, parts: Sequence[Retriever], *, weights: Sequence[float] | None = None) -> None:
        self._parts: list[Any] = list(parts)
        self._weights = [1.0] * len(self._parts) if weights is None else list(weights)
        right = len(self._weights) == len(self._parts) and min(self._weights, default=0) >= 0 and sum(self._weights)
        if not right:
            raise ValueOutOfBounds(
                f"weights = {weights!r}: one is needed for each of {len(self._parts)} retrievers; none may be "
                "negative, and one must be above 0"
            )

    def missing_ids(self, ids: Sequence[str]) -> list[str]:
        """The ids that the index does not have; empty if no part can tell."""
        part = next((part for part in self._parts if hasattr(part, "missing_ids")), None)
        return part.missing_ids(ids) if part is not None else []

    def search(
        self, queries: Sequence[str], k: int, *, ids: Collection[str] | None = None, where: Where | None = None
    ) -> list[list[Hit]]:
        """The `k` passages with the highest fused score for each query; `ids` and `where` as in `BM25Index.search`.

        Raises:
            ValueOutOfBounds: k < 1.
        """
        check_k(k)
        filters = {name: value for name, value in (("ids", ids), ("where", where)) if value is not None}
        results = [part.search(queries, max(k, _DEPTH), **filters) for part in self._parts]
        return [fuse(lists, k, weights=self._weights) for lists in zip(*results, strict=True)]
