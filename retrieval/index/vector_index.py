"""What indexes of vectors have in common: search by exact MaxSim, filters, adding, deleting and compaction.

A dense index is the case of one vector for each passage and query. The built index is never written to again: what is
added lies beside it (see `changes`) and is always scored exactly; what is deleted is left out of every search.
"""

from __future__ import annotations

import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from knowgap.errors import DataError, IndexFolderError
from knowgap.retrieval.index.changes import Changes
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.index.passage_store import Where, check_k, corpus_digest
from knowgap.retrieval.index.search_settings import SearchSettings
from knowgap.retrieval.index.snapshot import Snapshot
from knowgap.retrieval.passage import Hit, Passage

__all__ = ["Encoder", "VectorIndex"]

_QUERIES_AT_ONCE = 32


class Encoder(Protocol):
    """Texts to vectors."""

    @property
    def device(self) -> str:
        """Where it computes."""
        ...

    def encode_passages(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.int32]]:
        """Vectors [vectors, dim], text after text, and how many each text has, [texts]."""
        ...

    def encode_query(self, query: str) -> npt.NDArray[np.float32]:
        """Vectors [vectors, dim]."""
        ...


E = TypeVar("E", bound=Encoder)


class VectorIndex(ABC, Generic[E]):
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
        """What encodes queries and passages, loaded and checked when it is first asked for.

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
            return self._manifest.corpus_digest
        return corpus_digest(snapshot[int(position)] for position in snapshot.live())

    @property
    def digest(self) -> str:
        """A digest of what the index is made of, with all changes."""
        snapshot = self._snapshot()
        if not snapshot.changes.generation:
            return self._manifest.digest
        return hashlib.sha256(f"{self._manifest.digest} {self.corpus_digest}".encode()).hexdigest()

    def _snapshot(self) -> Snapshot:
        with self._lock:
            if self._current is None:
                self._current = Snapshot(self.path / self._manifest.root, self._manifest, self._scoring_device())
            return self._current

    def _scoring_device(self) -> str:
        return "cpu" if self._device is None and not _has_gpu() else self.encoder.device

    def __len__(self) -> int:
        return len(self._snapshot())

    def __iter__(self) -> Iterator[Passage]:
        snapshot = self._snapshot()
        return (snapshot[int(position)] for position in snapshot.live())

    def search(
        self, queries: Sequence[str], k: int, *, ids: Collection[str] | None = None, where: Where | None = None
    ) -> list[list[Hit]]:
        """The `k` passages that match each query best.

        Args:
            queries: any strings; a blank one finds nothing, and of a long one the first 256 tokens count.
            k: at most this many hits, from 1.
            ids: search only the passages with these ids.
            where: search only the passages for which this is true.

        Returns:
            Hits with their exact scores, however they were found.

        Raises:
            ValueOutOfBounds: k < 1.
            CheckpointError: the encoder of the index is absent or was changed.
        """
        check_k(k)
        asked = [query for query in dict.fromkeys(queries) if query.strip()]
        found: dict[str, list[Hit]] = {}
        if asked:
            snapshot = self._snapshot()
            allowed = snapshot.select(ids, where)
            for start in range(0, len(asked), _QUERIES_AT_ONCE):
                batch = asked[start : start + _QUERIES_AT_ONCE]
                encoded = [self.encoder.encode_query(query) for query in batch]
                found |= zip(batch, snapshot.search(encoded, k, self._settings, allowed), strict=True)
        return [list(found.get(query, [])) for query in queries]

    def refresh(self) -> Self:
        """See what other processes have changed since this index was opened; returns the index itself."""
        with self._lock:
            self._manifest = Manifest.read(self.path, engine=self._manifest.engine)
            if self._current is not None and self._current.manifest == self._manifest:
                changes = Changes(self.path / self._manifest.root, self._manifest.settings["dim"])
                self._current = self._current.after(changes)
            else:
                self._current = None
        return self

    def add(self, passages: Iterable[Passage], *, replace: bool = False) -> int:
        """Add passages; on disk, and in every later search, when this returns.

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
            seen: set[str] = set()
            for passage in new:
                position = snapshot.position(passage.id)
                if passage.id in seen or (position is not None and not replace):
                    raise DataError(f"the id {passage.id!r} is already in use; ids must be unique", field="id")
                seen.add(passage.id)
                if position is not None:
                    deleted.append(position)
            vectors, lengths = self.encoder.encode_passages([str(passage) for passage in new])
            if new:
                self._adopt(snapshot.after(snapshot.changes.commit(new, vectors, lengths, deleted)))
        return len(new)

    def delete(self, ids: Iterable[str]) -> int:
        """Delete passages by id; on disk, and in every later search, when this returns.

        Args:
            ids: what to delete; ids that the index does not have are passed over.

        Returns:
            How many passages were deleted.

        Raises:
            IndexFolderError: another process is changing the index.
        """
        with self._writer() as snapshot:
            found = {position for position in map(snapshot.position, ids) if position is not None}
            if found:
                vectors, lengths = snapshot.added.vectors[:0], snapshot.added.lengths[:0]
                self._adopt(snapshot.after(snapshot.changes.commit([], vectors, lengths, sorted(found))))
        return len(found)

    def compact(self) -> None:
        """Build the index anew from what is in it now, without encoding it again; the old one is searched meanwhile.

        A kill leaves the old index or the new one.

        Raises:
            UsageError: everything was deleted.
            IndexFolderError: another process is changing the index.
        """
        from knowgap.retrieval.index.compaction import compact

        with self._writer() as snapshot:
            if snapshot.changes.generation:
                self._manifest = compact(self.path, snapshot, self.encoder)
                self._adopt(None)

    def _adopt(self, snapshot: Snapshot | None) -> None:
        with self._lock:
            self._current = snapshot

    @contextmanager
    def _writer(self) -> Iterator[Snapshot]:
        from filelock import FileLock, Timeout

        with self._writing:
            try:
                with FileLock(self.path / ".writer.lock", timeout=0):
                    yield self.refresh()._snapshot()
            except Timeout:
                raise IndexFolderError(
                    f"{self.path}: another process is changing this index; try again later"
                ) from None

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()
