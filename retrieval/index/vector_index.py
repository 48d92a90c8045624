"""What indexes of vectors have in common: search by exact MaxSim, filters, adding, deleting and compaction.

A dense index is the case of one vector for each passage and query. Added passages are always scored exactly, and
deleted ones are left out of every search; see `updates`.
"""

from __future__ import annotations

import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from typing_extensions import Self

from knowgap.errors import DataError, IndexDamaged, IndexFolderError
from knowgap.retrieval.index.encoding import Encoder
from knowgap.retrieval.index.manifest import Manifest, write_manifest
from knowgap.retrieval.index.passage_store import Where, corpus_digest
from knowgap.retrieval.index.search_settings import SearchSettings
from knowgap.retrieval.index.updates import BuiltPart, Snapshot, compact
from knowgap.retrieval.index.window import warn_of_cut
from knowgap.retrieval.passage import Hit, NeverCopied, Passage, check_k, not_split

__all__ = ["VectorIndex"]

_QUERIES_AT_ONCE = 32


E = TypeVar("E", bound=Encoder)


class VectorIndex(NeverCopied, ABC, Generic[E]):
    """An index of passages by vectors, in a folder. Usable from many threads; changed by one process at a time."""

    def __init__(
        self, path: Path, manifest: Manifest, *, device: str | None, settings: SearchSettings | None = None
    ) -> None:
        self.path, self._manifest, self._device, self._settings = path, manifest, device, settings
        self._lock, self._writing = threading.RLock(), threading.RLock()
        self._current: Snapshot | None = None
        self._encoder: E | None = None

    @abstractmethod
    def _load_encoder(self) -> E:
        """Load what encodes queries and passages, or raise `CheckpointError`."""

    @property
    def encoder(self) -> E:
        """What encodes queries and passages, loaded and checked at the first call.

        Raises:
            CheckpointError: it is absent, or not the one that encoded the passages.
        """
        with self._lock:
            if self._encoder is None:
                self._encoder = self._load_encoder()
            return self._encoder

    @property
    def manifest(self) -> Manifest:
        """The manifest of the built part."""
        return self._manifest

    @property
    def corpus_digest(self) -> str:
        """The digest of the passages as they are now."""
        snapshot = self._snapshot()
        if not snapshot.changes.generation:
            return snapshot.built.manifest.corpus_digest
        return corpus_digest(snapshot[position] for position in snapshot.live().tolist())

    @property
    def digest(self) -> str:
        """A digest of what the index is made of, with all changes."""
        if not self._snapshot().changes.generation:
            return self._manifest.digest
        return hashlib.sha256(f"{self._manifest.digest} {self.corpus_digest}".encode()).hexdigest()

    def _snapshot(self) -> Snapshot:
        """The index as this object sees it, read from its folder at the first call and after `refresh`."""
        with self._lock:
            if self._current is None:
                device = "cpu" if self._device is None and not _has_gpu() else self.encoder.device
                while self._current is None:
                    manifest, snapshot, damage = self._manifest, None, None
                    try:
                        snapshot = Snapshot(BuiltPart(self.path, manifest, device))
                    except IndexDamaged as error:
                        damage = error
                    self._manifest = Manifest.read(self.path, engine=manifest.engine)
                    # If it differs, another process has compacted the index and removes the old files: read anew.
                    if self._manifest == manifest:
                        if damage is not None:
                            raise damage
                        self._current = snapshot
            return self._current

    def __len__(self) -> int:
        return len(self._snapshot())

    def __iter__(self) -> Iterator[Passage]:
        snapshot = self._snapshot()
        return (snapshot[position] for position in snapshot.live().tolist())

    def missing_ids(self, ids: Iterable[str]) -> list[str]:
        """Those of the ids that neither a passage has nor a document that was split into passages."""
        snapshot = self._snapshot()
        missing = [identifier for identifier in ids if snapshot.position(identifier) is None]
        return not_split(missing, (passage.id for passage in self))

    def search(
        self, queries: Sequence[str], k: int, *, ids: Collection[str] | None = None, where: Where | None = None
    ) -> list[list[Hit]]:
        """The `k` passages that match each query best.

        Args:
            queries: any strings; a blank one has no hits, and of a long one the first 256 tokens count.
            k: at most this many hits, from 1.
            ids: search only the passages with these ids.
            where: search only the passages for which this is true.

        Returns:
            Hits with their exact scores, however they were chosen.

        Raises:
            ValueOutOfBounds: k < 1.
            CheckpointError: the encoder of the index is absent or was changed.
        """
        check_k(k)
        distinct = [query for query in dict.fromkeys(queries) if query.strip()]
        hits: dict[str, list[Hit]] = {}
        if distinct:
            snapshot = self._snapshot()
            allowed = snapshot.select(ids, where)
            for start in range(0, len(distinct), _QUERIES_AT_ONCE):
                batch = distinct[start : start + _QUERIES_AT_ONCE]
                encoded = [self.encoder.encode_query(query) for query in batch]
                hits |= zip(batch, snapshot.search(encoded, k, self._settings, allowed), strict=True)
        return [list(hits.get(query, [])) for query in queries]

    def refresh(self) -> Self:
        """See what other processes have changed since this index was opened; returns the index itself."""
        with self._lock:
            self._manifest = Manifest.read(self.path, engine=self._manifest.engine)
            old, self._current = self._current, None
            if old is not None and old.built.manifest == self._manifest:
                with suppress(IndexDamaged):  # damage, or a compaction at this moment: the next use tells
                    new = Snapshot(old.built, old)
                    if new.changes.generation >= old.changes.generation:
                        self._current = new
        return self

    def add(self, passages: Iterable[Passage], *, replace: bool = False) -> int:
        """Add passages; they are on disk, and in every later search, when this returns.

        Args:
            passages: what to add.
            replace: delete passages with the same ids in the same step.

        Returns:
            How many were added.

        Raises:
            DataError: an id that the index already has, or that comes twice.
            IndexFolderError: another process is changing the index.
        """
        new = list(passages)
        with self._writer() as snapshot:
            deleted = []
            ids: set[str] = set()
            for passage in new:
                position = snapshot.position(passage.id)
                if passage.id in ids or (position is not None and not replace):
                    raise DataError(f"the id {passage.id!r} is already in use; ids must be unique", field="id")
                ids.add(passage.id)
                if position is not None:
                    deleted.append(position)
            if new:
                texts, window = [str(passage) for passage in new], self.encoder.window
                vectors, lengths = self.encoder.encode_passages(texts)
                warn_of_cut(window.cut(texts) if window is not None else 0, len(new), window)
                self._commit(snapshot, new, vectors, lengths, deleted)
        return len(new)

    def delete(self, ids: Iterable[str]) -> int:
        """Delete passages by id; on disk, and in every later search, when this returns.

        Args:
            ids: what to delete; ids that the index does not have are ignored.

        Returns:
            How many passages were deleted.

        Raises:
            IndexFolderError: another process is changing the index.
        """
        with self._writer() as snapshot:
            positions = {position for position in map(snapshot.position, ids) if position is not None}
            if positions:
                no_vectors, no_lengths = snapshot.changes.vectors[:0], snapshot.changes.lengths[:0]
                self._commit(snapshot, [], no_vectors, no_lengths, sorted(positions))
        return len(positions)

    def _commit(self, snapshot: Snapshot, *changes: Any) -> None:
        """Change the index on disk, and see it; the arguments are those of `Changes.commit`."""
        manifest = snapshot.built.manifest
        if not manifest.changed:
            snapshot.changes.begin()
            write_manifest(self.path, replace(manifest, changed=True))
        snapshot.changes.commit(*changes)
        self.refresh()

    def compact(self) -> None:
        """Build the index anew from its present passages, without encoding whole vectors again.

        Searches go on meanwhile. A kill leaves the old index or the new one.

        Raises:
            UsageError: everything was deleted.
            IndexFolderError: another process is changing the index.
        """
        with self._writer() as snapshot:
            if snapshot.changes.generation:
                compact(self.path, snapshot, self.encoder)
                self.refresh()

    @contextmanager
    def _writer(self) -> Iterator[Snapshot]:
        """Hold the writer's lock; yields the index as it is now."""
        from filelock import FileLock, Timeout

        with self._writing:
            try:
                with FileLock(self.path / ".writer.lock", timeout=0):
                    yield self.refresh()._snapshot()
            except Timeout:
                raise IndexFolderError(
                    f"{self.path}: another process is changing this index; try again later"
                ) from None


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()
