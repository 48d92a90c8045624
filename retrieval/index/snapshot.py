"""An index of vectors as a reader sees it: its segments at one moment, without the deleted passages."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from knowgap.retrieval.colbert.residual_codec import RESIDUALS, open_vectors
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.index.passage_store import (
    PassageStore,
    Positions,
    Where,
    corpus_digest,
    scored_hits,
    select_positions,
)
from knowgap.retrieval.index.search_settings import SearchSettings
from knowgap.retrieval.passage import Hit, Passage
from knowgap.retrieval.window import Encoder

_EXACT_FILTER = 20_000  # passages; if a filter admits no more, all of them are scored
_PREPARED = 50  # the least number of hits that a search prepares, so that the first hits do not depend on k
_PASSAGES_AT_ONCE = 1024

Block: TypeAlias = tuple[npt.NDArray[np.float16], npt.NDArray[np.integer]]
"""Vectors [vectors, dim], passage after passage, and how many each passage has, [passages]."""


class OpenSegment:
    """A segment of vectors, read through memory maps and scored on `device`."""

    def __init__(self, folder: Path, dim: int, nbits: int, device: str) -> None:
        self.store = PassageStore(folder)
        self.compressed = (folder / RESIDUALS).exists()
        self.vectors, self.centroids = open_vectors(folder, dim, nbits if self.compressed else 16, device)

    def __len__(self) -> int:
        return len(self.store)

    def scan(
        self,
        queries: list[npt.NDArray[np.float32]],
        k: int,
        settings: SearchSettings | None,
        admitted: Positions | None,
        deleted: Positions,
    ) -> list[tuple[Positions | None, npt.NDArray[np.float32]]]:
        """For each query, the positions to be scored exactly (None for all) and their rough scores.

        `admitted` are the positions to search, ascending (None for all); `deleted` are those that no search finds.
        """
        if settings is None or self.centroids is None or self.vectors.on_gpu:
            if admitted is None and len(deleted):
                admitted = np.delete(np.arange(len(self)), deleted)
            return [(admitted, rough) for rough in self.vectors.scan(queries, admitted)]
        return [self._candidates(query, k, settings, admitted, deleted) for query in queries]

    def _candidates(
        self,
        query: npt.NDArray[np.float32],
        k: int,
        settings: SearchSettings,
        admitted: Positions | None,
        deleted: Positions,
    ) -> tuple[Positions | None, npt.NDArray[np.float32]]:
        """The positions that are selected for a query by the settings, and their rough scores; see `scan`."""
        assert self.centroids is not None
        nprobe, limit = settings.nprobe, max(settings.n_rescored, _PREPARED)
        if k > _PREPARED:
            nprobe, limit = 2 * nprobe, max(limit, settings.n_rescored_per_hit * k)
        total = len(self) - len(deleted) if admitted is None else len(admitted)
        while nprobe < len(self.centroids):
            positions = self.centroids.candidates(query, nprobe, limit, admitted, deleted)
            if len(positions) >= min(max(k, _PREPARED), total):
                return positions, self.vectors.scan([query], positions)[0]
            nprobe *= 4
        return self.scan([query], k, None, admitted, deleted)[0]


class Snapshot:
    """An index at one moment: the segments that its manifest names, and what was deleted from them.

    Segments that an `earlier` snapshot has open are not opened again. Positions are counted through all segments.
    """

    def __init__(self, path: Path, manifest: Manifest, device: str, earlier: Snapshot | None = None) -> None:
        self.manifest = manifest
        dim, nbits = manifest.settings["dim"], manifest.settings.get("nbits", 16)
        known: dict[str, OpenSegment] = {}
        if earlier is not None:
            for record, segment in zip(earlier.manifest.segments, earlier.segments, strict=True):
                if earlier.manifest.files_of(record) == manifest.files_of(record):
                    known[record.name] = segment
        self.segments = [
            known.get(record.name) or OpenSegment(path / record.name, dim, nbits, device)
            for record in manifest.segments
        ]
        self.starts = np.cumsum([0, *map(len, self.segments)])
        self.deleted: Positions = np.empty(0, dtype=np.int64)
        if manifest.tombstones:
            self.deleted = np.load(path / manifest.tombstones, allow_pickle=False)
        self._gone = set(self.deleted.tolist())

    def __len__(self) -> int:
        return int(self.starts[-1]) - len(self.deleted)

    def __getitem__(self, position: int) -> Passage:
        number = int(np.searchsorted(self.starts, position, side="right")) - 1
        return self.segments[number].store[position - int(self.starts[number])]

    def __iter__(self) -> Iterator[Passage]:
        return (self[position] for position in self.live().tolist())

    def live(self) -> Positions:
        """The positions that are not deleted, ascending."""
        return np.delete(np.arange(self.starts[-1]), self.deleted)

    @cached_property
    def corpus_digest(self) -> str:
        """The digest of the passages that are not deleted."""
        changed = len(self.segments) > 1 or len(self.deleted)
        return corpus_digest(self) if changed else self.manifest.corpus_digest

    def position(self, identifier: str) -> int | None:
        """The position of the passage with this id; None if there is none, or if it is deleted."""
        for segment, start in zip(self.segments, self.starts.tolist(), strict=False):
            position = segment.store.position(identifier)
            if position is not None and start + position not in self._gone:
                return start + position
        return None

    def select(self, ids: Collection[str] | None, where: Where | None) -> Positions | None:
        """The positions that a filter admits, ascending; None without a filter."""
        return select_positions(self, ids, where, live=self.live() if ids is None and where is not None else None)

    def search(
        self, queries: list[npt.NDArray[np.float32]], k: int, settings: SearchSettings | None, allowed: Positions | None
    ) -> list[list[Hit]]:
        """The `k` best passages for each query, given as its vectors [vectors, dim].

        Without settings, all passages are scored; `allowed` are the positions to search, ascending, None for all.
        """
        if allowed is not None and len(allowed) <= _EXACT_FILTER:
            settings = None
        positions: list[list[Positions]] = [[] for _ in queries]
        scores: list[list[npt.NDArray[np.float64]]] = [[] for _ in queries]
        for segment, start in zip(self.segments, self.starts.tolist(), strict=False):
            deleted = _within(self.deleted, start, len(segment))
            admitted = None if allowed is None else _within(allowed, start, len(segment))
            if len(deleted) == len(segment) or (admitted is not None and not len(admitted)):
                continue
            for row, (scanned, rough) in enumerate(segment.scan(queries, k, settings, admitted, deleted)):
                best, exact = segment.vectors.best(queries[row], k, rough, scanned)
                positions[row].append(best + start)
                scores[row].append(exact)
        found = zip(positions, scores, strict=True)
        return [scored_hits(self, np.concatenate(p), np.concatenate(s), k) if p else [] for p, s in found]

    def blocks(self, positions: Positions, encoder: Encoder) -> Iterator[Block]:
        """Yield the vectors of the passages at some positions, ascending, some passages at a time.

        The passages of compressed segments are encoded again.
        """
        for segment, start in zip(self.segments, self.starts.tolist(), strict=False):
            mine = _within(positions, start, len(segment))
            for part in np.split(mine, range(_PASSAGES_AT_ONCE, len(mine), _PASSAGES_AT_ONCE)):
                if not len(part):
                    continue
                if segment.compressed:
                    yield encoder.encode_passages([str(segment.store[position]) for position in part.tolist()])
                else:
                    yield segment.vectors.of(part), segment.vectors.lengths[part]


def _within(positions: Positions, start: int, count: int) -> Positions:
    """The positions that lie in a segment, counted from its start."""
    return positions[(positions >= start) & (positions < start + count)] - start
