"""An index of vectors at one moment, and how it is searched."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from knowgap.retrieval.colbert.inverted_lists import CENTROIDS, CentroidIndex
from knowgap.retrieval.colbert.maxsim import TokenVectors
from knowgap.retrieval.colbert.residual_codec import ResidualVectors
from knowgap.retrieval.index.changes import Changes
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.index.passage_store import PassageStore, Positions, Where, scored_hits
from knowgap.retrieval.index.search_settings import SearchSettings
from knowgap.retrieval.passage import Hit, Passage

__all__ = ["Snapshot"]

_EXACT_FILTER = 20_000  # passages that a filter admits; so few are all scored
_FEWEST = 50  # hits that are prepared whatever k is, so that a larger k does not change the first ones


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
        """Positions that the settings choose, and their rough scores; more clusters are probed where k need it."""
        assert self.centroids is not None
        total = (
            len(self.store) - int(np.searchsorted(self.deleted, len(self.store))) if allowed is None else len(allowed)
        )
        nprobe, limit, wanted = settings.nprobe, max(settings.n_rescored, _FEWEST), min(max(k, _FEWEST), total)
        if k > _FEWEST:
            nprobe, limit = 2 * nprobe, max(limit, settings.n_rescored_per_hit * k)
        while nprobe < len(self.centroids):
            positions = self.centroids.candidates(query, nprobe, limit, allowed, self.deleted)
            if len(positions) >= wanted:
                return positions, self.base.scan([query], positions)[0]
            nprobe *= 4
        if allowed is None:
            allowed = np.setdiff1d(np.arange(len(self.store)), self.deleted, assume_unique=True)
        return allowed, self.base.scan([query], allowed)[0]
