"""An index of vectors at one moment, and how it is searched."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from knowgap.errors import UnknownName, ValueOutOfBounds
from knowgap.retrieval.colbert.inverted_lists import CENTROIDS, CentroidIndex
from knowgap.retrieval.colbert.maxsim import TokenVectors
from knowgap.retrieval.colbert.residual_codec import ResidualVectors
from knowgap.retrieval.index.changes import Changes
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.index.passage_store import PassageStore, Positions, Where, scored_hits
from knowgap.retrieval.passage import Hit, Passage

__all__ = ["QUALITIES", "SearchSettings", "Snapshot", "check_quality"]

_EXACT_FILTER = 20_000  # passages that a filter admits; so few are all scored


@dataclass(frozen=True)
class SearchSettings:
    """How an index of many passages is searched: more of each finds more and takes longer.

    Args:
        cells: how many clusters of token vectors each token of the query looks into, from 1; twice as many where more
            than 20 hits are asked for.
        rescored: how many of the passages found there are scored exactly, from 1.
        rescored_per_hit: or this many for each hit that is asked for, if that is more.

    Raises:
        ValueOutOfBounds: a value below 1.
    """

    cells: int
    rescored: int
    rescored_per_hit: int = 1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise ValueOutOfBounds(f"{name} = {value!r}: must be at least 1")


QUALITIES: dict[str, SearchSettings | None] = {
    "fast": SearchSettings(cells=1, rescored=128, rescored_per_hit=4),
    "balanced": SearchSettings(cells=2, rescored=256, rescored_per_hit=10),
    "exact": None,
}
"""What the names of `quality` stand for; None scores every passage."""


def check_quality(quality: str | SearchSettings) -> SearchSettings | None:
    """The settings of a quality.

    Raises:
        UnknownName: no such quality.
    """
    if isinstance(quality, SearchSettings):
        return quality
    if quality not in QUALITIES:
        raise UnknownName.among("quality", quality, QUALITIES)
    return QUALITIES[quality]


class Snapshot:
    """An index as it stood at one moment: the built part, what was added, and what of both was deleted."""

    def __init__(self, folder: Path, manifest: Manifest, device: str) -> None:
        self.manifest, settings = manifest, manifest.settings
        self.store = PassageStore(folder)
        self.centroids = CentroidIndex(folder) if (folder / CENTROIDS).exists() else None
        restored = None
        if self.centroids is not None and settings.get("nbits", 16) < 16:
            restored = ResidualVectors(folder, self.centroids.centroids, settings["nbits"])
        self.base = TokenVectors.open(folder, settings["dim"], vectors=restored, device=device)
        self._see(Changes(folder, settings["dim"]))

    def after(self, changes: Changes) -> Snapshot:
        """The same built index with other changes."""
        later = object.__new__(Snapshot)
        later.manifest, later.store = self.manifest, self.store
        later.base, later.centroids = self.base, self.centroids
        later._see(changes)
        return later

    def _see(self, changes: Changes) -> None:
        self.changes = changes
        self.added = TokenVectors(changes.vectors, changes.lengths)
        self.deleted = np.unique(changes.deleted)
        gone = set(changes.deleted.tolist())
        first = len(self.store)
        self._added_at = {p.id: first + i for i, p in enumerate(changes.passages) if first + i not in gone}

    def __len__(self) -> int:
        return len(self.store) + len(self.changes.passages) - len(self.deleted)

    def __getitem__(self, position: int) -> Passage:
        first = len(self.store)
        return self.store[position] if position < first else self.changes.passages[position - first]

    def live(self) -> Positions:
        """The positions that are not deleted, ascending."""
        return np.setdiff1d(np.arange(len(self.store) + len(self.changes.passages)), self.deleted, assume_unique=True)

    def position(self, identifier: str) -> int | None:
        """Where the passage with this id stands, if it is not deleted."""
        if identifier in self._added_at:
            return self._added_at[identifier]
        position = self.store.position(identifier)
        return None if position is None or np.isin(position, self.deleted) else position

    def select(self, ids: Collection[str] | None, where: Where | None) -> Positions | None:
        """The positions that a filter admits, ascending; None where there is no filter."""
        if ids is None and where is None:
            return None
        if ids is None:
            chosen: Iterable[int] = self.live().tolist()
        else:
            chosen = sorted({position for position in map(self.position, ids) if position is not None})
        return np.fromiter((p for p in chosen if where is None or where(self[p])), dtype=np.int64)

    def search(
        self,
        queries: list[npt.NDArray[np.float32]],
        k: int,
        settings: SearchSettings | None,
        allowed: Positions | None,
    ) -> list[list[Hit]]:
        """The `k` best passages for each query, given as its vectors."""
        first = len(self.store)
        base, added = None, np.arange(first, first + len(self.changes.passages))
        if allowed is not None:
            base, added = allowed[allowed < first], allowed[allowed >= first]
        elif len(self.deleted):
            added = np.setdiff1d(added, self.deleted, assume_unique=True)
            if settings is None or self.centroids is None or self.base.on_gpu:
                base = np.setdiff1d(np.arange(first), self.deleted, assume_unique=True)
        narrow = settings if self.centroids is not None and not self.base.on_gpu else None
        if allowed is not None and len(allowed) <= _EXACT_FILTER:
            narrow = None
        if narrow is not None:
            scanned = [self._narrow(query, k, narrow, base) for query in queries]
        else:
            scanned = [(base, rough) for rough in self.base.scan(queries, base)]
        beside = self.added.scan(queries, added - first)
        results = []
        for query, (positions, rough), other in zip(queries, scanned, beside, strict=True):
            found, scores = self.base.best(query, k, rough, positions)
            new, new_scores = self.added.best(query, k, other, added - first)
            both = np.concatenate([found, new + first])
            results.append(scored_hits(self, both, np.concatenate([scores, new_scores]), k))
        return results

    def _narrow(
        self, query: npt.NDArray[np.float32], k: int, settings: SearchSettings, allowed: Positions | None
    ) -> tuple[Positions, npt.NDArray[np.float32]]:
        """Positions that the settings choose, and their rough scores; more cells are looked into where k need it."""
        assert self.centroids is not None
        total = (
            len(self.store) - int(np.searchsorted(self.deleted, len(self.store))) if allowed is None else len(allowed)
        )
        cells, limit = settings.cells * (2 if k > 20 else 1), max(settings.rescored, settings.rescored_per_hit * k)
        while cells < len(self.centroids):
            positions = self.centroids.candidates(query, cells, limit, allowed, self.deleted)
            if len(positions) >= min(k, total):
                return positions, self.base.scan([query], positions)[0]
            cells *= 4
        if allowed is None:
            allowed = np.setdiff1d(np.arange(len(self.store)), self.deleted, assume_unique=True)
        return allowed, self.base.scan([query], allowed)[0]
