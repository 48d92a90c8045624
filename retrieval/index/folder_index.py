"""An index in a folder, made of immutable segments: searching, adding, deleting and merging.

See `manifest` for the files, and for what a killed writer leaves. What a segment has beside its passages depends on the
settings of the index: vectors if they have `dim`, and postings of words if they have `k1`.
"""

from __future__ import annotations

import shutil
import threading
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace as changed
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from knowgap.errors import DataError, IndexFolderError, UsageError
from knowgap.retrieval.index.base import Index
from knowgap.retrieval.index.build import IndexBuild
from knowgap.retrieval.index.encoding import encode_corpus
from knowgap.retrieval.index.manifest import Manifest, Segment
from knowgap.retrieval.index.passage_store import PassageStore, Positions, scored_hits
from knowgap.retrieval.index.snapshot import WORDS, Snapshot
from knowgap.retrieval.index.vectors import Block, Vectors, fixed_point
from knowgap.retrieval.passage import Hit, Passage, document_id
from knowgap.retrieval.postings import write_words
from knowgap.retrieval.window import Encoder, warn_of_cut
from knowgap.storage.files import sync
from knowgap.storage.manifest import FileRecord, record_file, seal
from knowgap.storage.progress import Progress

_MOST_SEGMENTS = 4


class FolderIndex(Index):
    """An index of passages in a folder. Usable from many threads; changed by one process at a time."""

    def __init__(self, path: Path, manifest: Manifest, encoder: Any = None) -> None:
        super().__init__(path, manifest, encoder)
        self._writing = threading.RLock()
        self._current: Snapshot | None = None

    @abstractmethod
    def _score(
        self, snapshot: Snapshot, encoder: Any, query: str, k: int, admitted: Positions
    ) -> tuple[Positions, npt.NDArray[np.floating]]:
        """The positions and scores of at least the `k` best of the admitted passages for a query that is not blank."""

    def _snapshot(self, earlier: Snapshot | None = None) -> Snapshot:
        """The index as this object sees it, read from its folder at the first call and after `refresh`."""
        with self._lock:
            if self._current is None and earlier is None:  # the index may have been built again since it was opened
                self._switch(Manifest.parse(self.path, engine=self.engine))
            while self._current is None:
                manifest = self.manifest
                try:
                    self._current = Snapshot.open(self.path, manifest, earlier)
                except FileNotFoundError:
                    self._switch(Manifest.read(self.path, engine=self.engine))
                    if self.manifest == manifest:  # otherwise another process has changed the index, and removed files
                        raise
            return self._current

    def _switch(self, manifest: Manifest) -> None:
        """Take over a manifest; an index that was built again with another checkpoint needs another encoder."""
        if manifest.checkpoint != self.manifest.checkpoint:
            self._encoder = None
        self.manifest = manifest

    def __len__(self) -> int:
        return len(self._snapshot())

    def __iter__(self) -> Iterator[Passage]:
        return iter(self._snapshot())

    def missing_ids(self, ids: Iterable[str]) -> list[str]:
        """The ids that belong neither to a passage nor to a document that was split into passages."""
        snapshot = self._snapshot()
        missing = [identifier for identifier in ids if snapshot.position(identifier) is None]
        documents = {document_id(passage.id) for passage in snapshot} if missing else set()
        return [identifier for identifier in missing if identifier not in documents]

    def _find(self, queries: Sequence[str], k: int, ids: Collection[str] | None) -> Iterator[list[Hit]]:
        with self._lock:  # a refresh may bring another encoder
            snapshot, encoder = self._snapshot(), self.encoder
        admitted = snapshot.select(ids)
        for query in queries:
            found = self._score(snapshot, encoder, query, k, admitted) if len(admitted) else (admitted, np.zeros(0))
            yield scored_hits(snapshot, *found, k)

    def refresh(self) -> Self:
        """Read the changes that other processes have made since the index was opened; return the index itself."""
        with self._lock:
            manifest = Manifest.read(self.path, engine=self.engine)
            if manifest != self.manifest:
                self._see(manifest)
        return self

    def _see(self, manifest: Manifest) -> None:
        """Switch to the index that a manifest describes; segments that are already open stay open."""
        with self._lock:
            earlier, self._current = self._current, None
            self._switch(manifest)
            if earlier is not None:
                self._snapshot(earlier)

    def add(self, passages: Iterable[Passage], *, replace: bool = False) -> int:
        """Add passages, and return how many; they are on disk, and in every later search, when this returns.

        `replace` deletes passages with the same ids in the same step.

        Raises:
            DataError: an id is used twice, or the index already has it and `replace` is False.
            IndexFolderError: another process is changing the index.
        """
        new = list(passages)
        with self._writer() as snapshot:
            deleted: list[int] = []
            ids: set[str] = set()
            for passage in new:
                position = snapshot.position(passage.id)
                if passage.id in ids or (position is not None and not replace):
                    raise DataError(f"the id {passage.id!r} is already in use; ids must be unique", field="id")
                ids.add(passage.id)
                if position is not None:
                    deleted.append(position)
            if new:
                blocks = [] if self.encoder is None else [_encode(self.encoder, new)]
                kept = _kept([*map(len, snapshot.segments), len(new)])
                merged = np.setdiff1d(snapshot.live, deleted)
                merged = merged[merged >= snapshot.starts[kept]]
                together = chain((snapshot[position] for position in merged.tolist()), new)
                self._change(snapshot, kept, together, chain(snapshot.blocks(merged), blocks), deleted=deleted)
        return len(new)

    def delete(self, ids: Iterable[str]) -> int:
        """Delete passages by id, on disk and from every later search, and return how many the index had.

        Raises:
            IndexFolderError: another process is changing the index.
        """
        with self._writer() as snapshot:
            positions = {position for position in map(snapshot.position, ids) if position is not None}
            if positions:
                self._change(snapshot, len(snapshot.segments), deleted=positions)
        return len(positions)

    def merge(self) -> None:
        """Write all passages that are left as one segment; none of them is encoded again.

        Searches can run at the same time. A kill leaves the old index or the new one.

        Raises:
            UsageError: everything was deleted.
            IndexFolderError: another process is changing the index.
        """
        with self._writer() as snapshot:
            if not len(snapshot):
                raise UsageError(f"{self.path}: every passage was deleted; remove the folder instead")
            if len(snapshot.segments) > 1 or len(snapshot) < len(snapshot.alive):
                self._change(snapshot, 0, snapshot, snapshot.blocks(snapshot.live))

    def _change(
        self,
        snapshot: Snapshot,
        kept: int,
        passages: Iterable[Passage] | None = None,
        blocks: Iterable[Block] = (),
        *,
        deleted: Collection[int] = (),
    ) -> None:
        """Replace the manifest by one with the first `kept` segments of the snapshot and a new one, and switch to it.

        The new segment has the passages and their vectors, `blocks`; without passages, there is no new segment. The
        positions `deleted` are deleted in the same step.
        """
        old, change, path = snapshot.manifest, snapshot.manifest.changes + 1, self.path
        segments, files = list(old.segments[:kept]), dict[str, FileRecord]()
        for name, record in old.files.items():
            if name.split("/")[0] in {"checkpoint", *(segment.name for segment in segments)}:
                files[name] = record
        if passages is not None:
            folder = path / f"segment-{change}"
            shutil.rmtree(folder, ignore_errors=True)  # a killed writer may have left it
            folder.mkdir()
            store, digest = PassageStore.build(passages, folder)
            if "dim" in old.settings:
                Vectors.write(folder, blocks, old.settings["dim"])
            if "k1" in old.settings:
                write_words(store, folder / WORDS, old.settings)
            files |= {f"{folder.name}/{name}": record for name, record in seal(folder).items()}
            segments.append(Segment(folder.name, len(store), digest))
        gone = np.union1d(np.flatnonzero(~snapshot.alive), np.fromiter(deleted, dtype=np.int64))
        gone = gone[gone < snapshot.starts[kept]]
        tombstones = f"deleted-{change}.npy" if len(gone) else ""
        if tombstones:
            np.save(path / tombstones, gone)
            sync(path / tombstones)
            files[tombstones] = record_file(path / tombstones)
        sync(path)
        manifest = changed(
            old, segments=tuple(segments), deleted=len(gone), tombstones=tombstones, changes=change, files=files
        )
        manifest.write(path)
        self._sweep(manifest)
        self._see(Manifest.parse(path))

    def _sweep(self, manifest: Manifest) -> None:
        """Remove the files of earlier changes, which the manifest does not name."""
        named = {manifest.tombstones, *(segment.name for segment in manifest.segments)}
        for path in (*self.path.glob("segment-*"), *self.path.glob("deleted-*")):
            if path.name not in named:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

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


def write_segment(
    build: IndexBuild, store: PassageStore, encoder: Encoder | None, manifest: Manifest, report: Progress
) -> None:
    """Write the first segment of an index, or the rest of it; see `Index._build`."""
    state = build.resume(manifest)
    if encoder is not None:
        encode_corpus(store, encoder, state, report)
    if "k1" in manifest.settings:
        write_words(store, build.segment / WORDS, manifest.settings, report)


def _encode(encoder: Encoder, passages: Sequence[Passage]) -> Block:
    texts = [str(passage) for passage in passages]
    warn_of_cut(encoder.window.cut(texts) if encoder.window is not None else 0, len(texts), encoder.window)
    vectors, lengths = encoder.encode_passages(texts)
    return fixed_point(vectors), lengths


def _kept(sizes: list[int]) -> int:
    """How many segments an addition leaves as they are, given the sizes of all segments with the new one as the last.

    If there would be more than `_MOST_SEGMENTS`, the first segment that is not larger than all that follow it together
    is merged with these. A passage is therefore written again only when its segment at least doubles.
    """
    if len(sizes) <= _MOST_SEGMENTS:
        return len(sizes) - 1
    return next((i for i, size in enumerate(sizes[:-1]) if size <= sum(sizes[i + 1 :])), len(sizes) - 2)
