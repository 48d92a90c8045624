"""An index of vectors as it is after its changes: adding, deleting, searching, compaction.

The files of the built index are never written again; what follows it is in `changes`. Positions of passages continue
those of the built index: the first added passage follows its last.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from knowgap.errors import UsageError
from knowgap.retrieval.colbert.maxsim import LENGTHS, VECTORS, TokenVectors
from knowgap.retrieval.colbert.residual_codec import cluster, open_vectors
from knowgap.retrieval.index.changes import Changes
from knowgap.retrieval.index.encoding import Encoder
from knowgap.retrieval.index.manifest import Manifest, record_files, write_manifest
from knowgap.retrieval.index.passage_store import PassageStore, Positions, Where, scored_hits, select_positions
from knowgap.retrieval.index.search_settings import SearchSettings
from knowgap.retrieval.passage import Hit, Passage
from knowgap.storage.progress import no_progress

__all__ = ["BuiltPart", "Snapshot", "compact"]

_EXACT_FILTER = 20_000  # passages that a filter admits; up to this many are all scored
_PREPARED = 50  # hits that a search prepares at least, so that the first hits do not depend on k
_PASSAGES_AT_ONCE = 1024
_COMPACTED = re.compile(r"compacted-\d+")
_BUILT_FILES = re.compile(r"(?:passages|tokens|cells|codes|changes)\..+|(?:centroids|cells|codes|buckets)\.npy")


class BuiltPart:
    """The files that the last build or compaction of an index wrote, opened; vectors are scored on `device`."""

    def __init__(self, path: Path, manifest: Manifest, device: str) -> None:
        self.manifest, self.folder = manifest, path / manifest.root
        self.store = PassageStore(self.folder)
        dim, nbits = manifest.settings["dim"], manifest.settings.get("nbits", 16)
        self.vectors, self.centroids = open_vectors(self.folder, dim, nbits, device)


class Snapshot:
    """An index at one moment: the built part, and the changes that are on disk now.

    Of changes that an `earlier` snapshot has read, the digests are not computed again.
    """

    def __init__(self, built: BuiltPart, earlier: Snapshot | None = None) -> None:
        self.built = built
        known = None if earlier is None else earlier.changes
        manifest = built.manifest
        self.changes = changes = Changes(
            built.folder, manifest.settings["dim"], earlier=known, recorded=manifest.changed
        )
        self._first = first = len(built.store)
        self._added = TokenVectors(changes.vectors, changes.lengths)
        self._deleted = set(changes.deleted.tolist())
        self._deleted_built = np.unique(changes.deleted[changes.deleted < first])
        self._live_built = np.delete(np.arange(first), self._deleted_built) if len(self._deleted_built) else None
        added = np.arange(first, first + len(changes.passages))
        self._live_added = np.setdiff1d(added, changes.deleted, assume_unique=True)
        self._added_positions = {self[position].id: position for position in self._live_added.tolist()}

    def __len__(self) -> int:
        return self._first - len(self._deleted_built) + len(self._live_added)

    def __getitem__(self, position: int) -> Passage:
        first = self._first
        return self.built.store[position] if position < first else self.changes.passages[position - first]

    def live(self) -> Positions:
        """The positions that are not deleted, ascending."""
        built = np.arange(self._first) if self._live_built is None else self._live_built
        return np.concatenate([built, self._live_added])

    def position(self, identifier: str) -> int | None:
        """The position of the passage with this id; None if there is none, or if it is deleted."""
        if identifier in self._added_positions:
            return self._added_positions[identifier]
        position = self.built.store.position(identifier)
        return None if position in self._deleted else position

    def select(self, ids: Collection[str] | None, where: Where | None) -> Positions | None:
        """The positions that a filter admits, ascending; None without a filter."""
        return select_positions(self, ids, where, live=self.live() if ids is None and where is not None else None)

    def search(
        self,
        queries: list[npt.NDArray[np.float32]],
        k: int,
        settings: SearchSettings | None,
        allowed: Positions | None,
    ) -> list[list[Hit]]:
        """The `k` best passages for each query, given as its vectors [vectors, dim].

        Without settings, all passages are scored; `allowed` are the positions to search, ascending, None for all.
        """
        base, first = self.built.vectors, self._first
        built, added = self._live_built, self._live_added
        if allowed is not None:
            built, added = allowed[allowed < first], allowed[allowed >= first]
        if self.built.centroids is None or base.on_gpu or (allowed is not None and len(allowed) <= _EXACT_FILTER):
            settings = None
        if settings is None:
            scanned = [(built, rough) for rough in base.scan(queries, built)]
        else:
            scanned = [self._candidates(query, k, settings, None if allowed is None else built) for query in queries]
        scanned_added = self._added.scan(queries, added - first)
        results = []
        for query, (positions, rough), rough_added in zip(queries, scanned, scanned_added, strict=True):
            best, scores = base.best(query, k, rough, positions)
            best_added, scores_added = self._added.best(query, k, rough_added, added - first)
            positions = np.concatenate([best, best_added + first])
            results.append(scored_hits(self, positions, np.concatenate([scores, scores_added]), k))
        return results

    def _candidates(
        self, query: npt.NDArray[np.float32], k: int, settings: SearchSettings, allowed: Positions | None
    ) -> tuple[Positions | None, npt.NDArray[np.float32]]:
        """Positions in the built part that the settings choose, and their rough scores; None stands for all."""
        base, centroids = self.built.vectors, self.built.centroids
        assert centroids is not None
        nprobe, limit = settings.nprobe, max(settings.n_rescored, _PREPARED)
        if k > _PREPARED:
            nprobe, limit = 2 * nprobe, max(limit, settings.n_rescored_per_hit * k)
        total = self._first - len(self._deleted_built) if allowed is None else len(allowed)
        while nprobe < len(centroids):
            positions = centroids.candidates(query, nprobe, limit, allowed, self._deleted_built)
            if len(positions) >= min(max(k, _PREPARED), total):
                return positions, base.scan([query], positions)[0]
            nprobe *= 4
        positions = self._live_built if allowed is None else allowed
        return positions, base.scan([query], positions)[0]


def compact(path: Path, snapshot: Snapshot, encoder: Encoder) -> None:
    """Write the passages of a snapshot as the built part of its index.

    The caller holds the writer's lock. Passages are encoded again if the index keeps compressed vectors only.

    Raises:
        UsageError: everything was deleted.
    """
    if not len(snapshot):
        raise UsageError(f"{path}: every passage was deleted; remove the folder instead")
    old = snapshot.built.manifest
    settings = old.settings
    _sweep(path, old)
    number = int(old.root.removeprefix("compacted-")) if _COMPACTED.fullmatch(old.root) else 0
    root = f"compacted-{number + 1}"
    folder = path / root
    folder.mkdir()
    live = snapshot.live()
    store, digest = PassageStore.build((snapshot[position] for position in live.tolist()), folder)
    lengths = []
    with (folder / VECTORS).open("wb") as file:
        for vectors, counts in _vectors(snapshot, live, encoder):
            file.write(vectors.tobytes())
            lengths.append(counts)
    np.save(folder / LENGTHS, np.concatenate(lengths).astype(np.int32))
    if "nbits" in settings:
        cluster(folder, settings["dim"], settings["nbits"], settings["clustered"], no_progress)
        if settings["nbits"] < 16:
            (folder / VECTORS).unlink()
    files = {name: entry for name, entry in old.files.items() if name.startswith("checkpoint/")}
    files |= {f"{root}/{name}": entry for name, entry in record_files(folder).items()}
    manifest = replace(old, passages=len(store), corpus_digest=digest, files=files, root=root, changed=False)
    write_manifest(path, manifest)
    _sweep(path, manifest)


def _vectors(
    snapshot: Snapshot, live: Positions, encoder: Encoder
) -> Iterator[tuple[npt.NDArray[np.float16], npt.NDArray[np.integer]]]:
    """The vectors of live passages, some passages at a time, and how many each passage has."""
    first = len(snapshot.built.store)
    added = TokenVectors(snapshot.changes.vectors, snapshot.changes.lengths)
    for start in range(0, len(live), _PASSAGES_AT_ONCE):
        part = live[start : start + _PASSAGES_AT_ONCE]
        if snapshot.built.manifest.settings.get("nbits", 16) < 16:
            yield encoder.encode_passages([str(snapshot[position]) for position in part.tolist()])
            continue
        for vectors, mine in ((snapshot.built.vectors, part[part < first]), (added, part[part >= first] - first)):
            yield vectors.of(mine), vectors.lengths[mine]


def _sweep(path: Path, manifest: Manifest) -> None:
    """Remove the files of earlier builds and compactions, which the manifest does not name."""
    for entry in path.iterdir():
        if _COMPACTED.fullmatch(entry.name) and entry.name != manifest.root:
            shutil.rmtree(entry)
        elif manifest.root != "." and _BUILT_FILES.fullmatch(entry.name):
            entry.unlink()
