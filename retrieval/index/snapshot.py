"""An index as a reader sees it: its segments at one moment, without the deleted passages."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from knowgap.retrieval.index.manifest import Manifest, Segment
from knowgap.retrieval.index.passage_store import PassageStore, Positions
from knowgap.retrieval.index.vectors import Block, Vectors
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.postings import Postings, WeighedWords
from knowgap.retrieval.words import Analyzer

WORDS = "bm25"
"""The folder of a segment that has its postings."""

_PASSAGES_AT_ONCE = 1024


@dataclass(frozen=True)
class OpenSegment:
    """A segment: its passages, and their vectors and postings if the index has them."""

    store: PassageStore
    vectors: Vectors | None = None
    postings: Postings | None = None

    @classmethod
    def open(cls, folder: Path, settings: dict[str, Any]) -> OpenSegment:
        """Map the files of a segment of an index with these settings."""
        vectors = Vectors.open(folder, settings["dim"]) if "dim" in settings else None
        return cls(PassageStore(folder), vectors, Postings.open(folder / WORDS) if "stemmer" in settings else None)

    def __len__(self) -> int:
        return len(self.store)


class Snapshot:
    """An index at one moment. Positions are counted through all segments.

    Args:
        path: the folder of the index.
        manifest: the manifest of that moment.
        earlier: segments that this snapshot has open are not opened again.
    """

    def __init__(self, path: Path, manifest: Manifest, earlier: Snapshot | None = None) -> None:
        known: dict[Segment, OpenSegment] = {}
        if earlier is not None and earlier._made_as == (manifest.settings, manifest.checkpoint):
            known = dict(zip(earlier.manifest.segments, earlier.segments, strict=True))
        self.manifest, self._made_as = manifest, (manifest.settings, manifest.checkpoint)
        self.segments = [
            known.get(record) or OpenSegment.open(path / record.name, manifest.settings) for record in manifest.segments
        ]
        self.starts = np.cumsum([0, *map(len, self.segments)])
        self.alive = np.ones(self.starts[-1], dtype=bool)
        if manifest.tombstones:
            self.alive[np.load(path / manifest.tombstones, allow_pickle=False)] = False
        self.live: Positions = np.flatnonzero(self.alive)

    def __len__(self) -> int:
        return len(self.live)

    def __getitem__(self, position: int) -> Passage:
        number = int(np.searchsorted(self.starts, position, side="right")) - 1
        return self.segments[number].store[position - int(self.starts[number])]

    def __iter__(self) -> Iterator[Passage]:
        return (self[position] for position in self.live.tolist())

    def position(self, identifier: str) -> int | None:
        """The position of the passage with this id; None if there is none, or if it is deleted."""
        for segment, start in zip(self.segments, self.starts.tolist(), strict=False):
            position = segment.store.position(identifier)
            if position is not None and self.alive[start + position]:
                return start + position
        return None

    def select(self, ids: Collection[str] | None) -> Positions:
        """The positions of the passages with these ids, ascending; unknown ids are ignored. None selects all."""
        if ids is None:
            return self.live
        positions = {position for position in map(self.position, ids) if position is not None}
        return np.fromiter(sorted(positions), dtype=np.int64)

    @cached_property
    def vectors(self) -> list[Vectors]:
        """The vectors of each segment."""
        return [segment.vectors for segment in self.segments if segment.vectors is not None]

    @cached_property
    def words(self) -> WeighedWords:
        """The words of all segments."""
        postings = [segment.postings for segment in self.segments if segment.postings is not None]
        return WeighedWords(postings, self.alive)

    @cached_property
    def analyzer(self) -> Analyzer:
        """What reduces a query to the words that are counted."""
        return Analyzer(self.manifest.settings["stemmer"])

    def blocks(self, positions: Positions) -> Iterator[Block]:
        """Yield the vectors of the passages at some positions, ascending, some passages at a time."""
        for vectors, start in zip(self.vectors, self.starts.tolist(), strict=False):
            mine = positions[(positions >= start) & (positions < start + len(vectors))] - start
            for part in np.split(mine, range(_PASSAGES_AT_ONCE, len(mine), _PASSAGES_AT_ONCE)):
                if len(part):
                    yield vectors.of(part), vectors.lengths[part]
