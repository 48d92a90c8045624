"""An index as a reader sees it: its segments at one moment, without the deleted passages."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knowgap.retrieval.index.manifest import Manifest, Segment
from knowgap.retrieval.index.passage_store import PassageStore, Positions
from knowgap.retrieval.index.vectors import Vectors, nearest
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.postings import Postings, WeighedWords
from knowgap.retrieval.words import Analyzer

WORDS = "bm25"
"""The folder of a segment that has its postings."""
SHARE = 0.5
"""How much the words of a query count in a hybrid index, where its vectors count 1."""


class OpenSegment:
    """The memory-mapped files of a segment of an index with some settings; None for what such an index does not have.

    Attributes:
        store: its passages.
        vectors: their vectors.
        postings: their words.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.store = PassageStore(folder)
        self.vectors: Any = Vectors.open(folder, settings["dim"]) if "dim" in settings else None
        self.postings: Any = Postings.open(folder / WORDS) if "stemmer" in settings else None


class Snapshot:
    """An index at one moment. Positions are counted through all segments.

    Args:
        path: the folder of the index.
        manifest: the manifest of that moment.
        earlier: segments of the same index that this snapshot has open are not opened again.

    Attributes:
        starts: the position at which each segment begins, and the end of the last one.
        alive: which passages are not deleted, [passages].
        live: their positions, ascending.
    """

    def __init__(self, path: Path, manifest: Manifest, earlier: Snapshot | None = None) -> None:
        self.manifest, settings = manifest, manifest.settings
        known: dict[Segment, OpenSegment] = {} if earlier is None else earlier.opened
        self.opened = {each: known.get(each) or OpenSegment(path / each.name, settings) for each in manifest.segments}
        self.segments = [*self.opened.values()]
        self.starts = np.cumsum([0, *(segment.passages for segment in manifest.segments)])
        self.alive = np.ones(self.starts[-1], dtype=bool)
        self.alive[manifest.deleted] = False
        self.live: Positions = np.flatnonzero(self.alive)

    def __len__(self) -> int:
        return len(self.live)

    def __getitem__(self, position: int) -> Passage:
        number = int(np.searchsorted(self.starts, position, side="right")) - 1
        return self.segments[number].store[position - int(self.starts[number])]

    def __iter__(self) -> Iterator[Passage]:
        return (self[position] for position in self.live.tolist())

    def positions(self, ids: Collection[str]) -> Positions:
        """The positions of the passages with these ids, ascending; ids of none, and of deleted ones, are ignored."""
        found = [
            start + position
            for segment, start in zip(self.segments, self.starts.tolist(), strict=False)
            for position in map(segment.store.positions.get, ids)
            if position is not None
        ]
        positions = np.unique(np.array(found, dtype=np.int64))
        return positions[self.alive[positions]]

    @property
    def vectors(self) -> list[Vectors]:
        """The vectors of each segment."""
        return [segment.vectors for segment in self.segments]

    @cached_property
    def _words(self) -> WeighedWords:
        return WeighedWords([segment.postings for segment in self.segments], self.alive)

    @cached_property
    def _analyzer(self) -> Analyzer:
        return Analyzer(self.manifest.settings["stemmer"])

    def score(
        self, query: str, vectors: npt.NDArray[np.float32] | None, k: int
    ) -> tuple[Positions, npt.NDArray[np.floating]]:
        """Score passages by what the index has: words, vectors or both.

        Args:
            query: a text that is not blank.
            vectors: its vectors [vectors, dim]; None in an index without vectors.
            k: how many hits are asked for, from 1.

        Returns:
            Positions and scores of at least the `k` best.
        """
        if not len(self.live):
            return self.live, np.zeros(0)
        if vectors is None:
            scores = self._words.scores(self._analyzer.query(query))[self.live]
            return self.live[scores > 0], scores[scores > 0]
        if "stemmer" not in self.manifest.settings:
            return nearest(self.vectors, vectors, k, self.live)
        weight = float(np.linalg.norm(vectors, axis=1).sum())  # MaxSim if each token of the query is in the passage
        shares = self._words.shares(self._analyzer.query(query))
        positions, scores = nearest(self.vectors, vectors, k, self.live, np.float32(SHARE * weight) * shares)
        return positions, scores / weight
