"""An index in a folder, made of immutable segments: building, searching, adding and deleting.

See `manifest` for the files, and for what a killed writer leaves. What a segment has beside its passages depends on the
settings of the index: vectors if they have `dim`, and postings of words if they have `stemmer`.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace as changed
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import Self

from knowgap.errors import DataError, IndexDamaged, IndexFolderError
from knowgap.retrieval.index.base import Build, Index
from knowgap.retrieval.index.manifest import CHECKPOINT, FIRST_SEGMENT, Manifest, Segment
from knowgap.retrieval.index.passage_store import PassageStore, Positions, scored_hits
from knowgap.retrieval.index.snapshot import WORDS, Snapshot
from knowgap.retrieval.index.vectors import LENGTHS, Block, Vectors, fixed_point, portions
from knowgap.retrieval.passage import Hit, Passage, document_id
from knowgap.retrieval.postings import write_words
from knowgap.retrieval.words import Analyzer
from knowgap.storage.files import acquire_lock, sync
from knowgap.storage.manifest import seal

_MOST_SEGMENTS, _MOST_DELETED = 4, 0.2
_ENCODED_AT_ONCE = 512  # passages; a killed build loses no more


class FolderIndex(Index):
    """An index of passages in a folder. Usable from many threads; changed by one process at a time."""

    def __init__(self, path: Path, encoder: Any = None) -> None:
        super().__init__(path, encoder)
        self._writing = threading.RLock()
        self._snapshot = Snapshot(path, self.manifest)
        self.refresh()

    @classmethod
    def _write(cls, build: Build) -> None:
        folder, settings = build.folder / FIRST_SEGMENT, build.manifest.settings
        if "stemmer" in settings:
            Analyzer(settings["stemmer"])  # there may be no such language
        build.begin()
        _write_segment(folder, build.store, settings, _encoded(folder, build))

    def refresh(self) -> Self:
        """Read the changes that other processes have made since the index was opened; return the index itself."""
        while (manifest := Manifest.parse(self.path, engine=self.engine)) != self.manifest:
            try:
                self._switch(Manifest.read(self.path, engine=self.engine))
            except (IndexDamaged, FileNotFoundError):
                if Manifest.parse(self.path) == manifest:  # no other process has changed the index meanwhile
                    raise
        return self

    def _switch(self, manifest: Manifest) -> None:
        """Search the index that a manifest describes from now on; segments that are already open stay open."""
        with self._lock:
            same = (manifest.settings, manifest.checkpoint) == (self.manifest.settings, self.manifest.checkpoint)
            self._snapshot = Snapshot(self.path, manifest, self._snapshot if same else None)
            self._encoder = self._encoder if same else None  # the index was built again
            self.manifest = manifest

    def __len__(self) -> int:
        return len(self._snapshot)

    def __iter__(self) -> Iterator[Passage]:
        return iter(self._snapshot)

    def missing_ids(self, ids: Iterable[str]) -> list[str]:
        """The ids that belong neither to a passage nor to a document that was split into passages."""
        snapshot = self._snapshot
        missing = [identifier for identifier in ids if not len(snapshot.positions([identifier]))]
        documents = {document_id(passage.id) for passage in snapshot} if missing else set()
        return [identifier for identifier in missing if identifier not in documents]

    def _find(self, queries: Sequence[str], k: int) -> Iterator[list[Hit]]:
        with self._lock:  # a refresh may bring another encoder
            snapshot, encoder = self._snapshot, self.encoder
        for query in queries:
            vectors = None if encoder is None else encoder.encode_query(query)
            yield scored_hits(snapshot, *snapshot.score(query, vectors, k), k)

    def add(self, passages: Iterable[Passage], *, replace: bool = False) -> int:
        """Add passages, and return how many; they are on disk, and in every later search, when this returns.

        `replace` deletes passages with the same ids in the same step.

        Raises:
            DataError: an id is used twice, or the index already has it and `replace` is False.
            IndexFolderError: another process is changing the index.
        """
        new = list(passages)
        with self._writer() as snapshot:
            old = snapshot.positions([passage.id for passage in new])
            if len(old) and not replace:
                raise DataError(f"the id {snapshot[old[0]].id!r} is already in use; ids must be unique", field="id")
            if new:
                kept = _kept([*(segment.passages for segment in self.manifest.segments), len(new)])
                self._change(snapshot, kept, new, old)
        return len(new)

    def delete(self, ids: Iterable[str]) -> int:
        """Delete passages by id, on disk and from every later search, and return how many the index had.

        Raises:
            IndexFolderError: another process is changing the index.
        """
        with self._writer() as snapshot:
            positions = snapshot.positions([*ids])
            if len(positions):
                self._change(snapshot, len(snapshot.segments), deleted=positions)
        return len(positions)

    def _change(
        self, snapshot: Snapshot, kept: int, new: Sequence[Passage] = (), deleted: Sequence[int] | Positions = ()
    ) -> None:
        """Replace the manifest and switch to the new one, which names the first `kept` segments of the snapshot.

        New passages, and what is left of the other segments, become one new segment. The positions `deleted` are
        deleted in the same step. If many of all are deleted by then, no segment is kept; none is encoded again.
        """
        old, change = snapshot.manifest, snapshot.manifest.changes + 1
        gone = np.union1d(np.array(old.deleted, dtype=np.int64), np.array(deleted, dtype=np.int64))
        if len(gone) > _MOST_DELETED * len(snapshot.alive):
            kept = 0
        end = snapshot.starts[kept]
        left = np.setdiff1d(snapshot.live[snapshot.live >= end], gone)
        segments = list(old.segments[:kept])
        named = {CHECKPOINT, *(segment.name for segment in segments)}
        files = {name: record for name, record in old.files.items() if name.split("/")[0] in named}
        if len(left) or new:
            folder = self.path / f"segment-{change}"
            shutil.rmtree(folder, ignore_errors=True)  # a killed writer may have left it
            folder.mkdir()
            store, digest = PassageStore.build(chain((snapshot[n] for n in left.tolist()), new), folder)
            vectors: Iterable[Block] = ()
            if "dim" in old.settings:
                copied = (part.of(own) for part, own in portions(snapshot.vectors, left))
                vectors = chain(copied, [_encode(self.encoder, new)] if new else [])
            _write_segment(folder, store, old.settings, vectors)
            files |= {f"{folder.name}/{name}": record for name, record in seal(folder).items()}
            segments.append(Segment(folder.name, len(store), digest))
        sync(self.path)
        deletions = gone[gone < end].tolist()
        manifest = changed(old, segments=tuple(segments), deleted=deletions, changes=change, files=files)
        manifest.write(self.path)
        for folder in self.path.glob("segment-*"):
            if folder.name not in {segment.name for segment in segments}:
                shutil.rmtree(folder)
        self._switch(manifest)

    @contextmanager
    def _writer(self) -> Iterator[Snapshot]:
        """Hold the writer's lock; yields the index as it is now."""
        taken = IndexFolderError(f"{self.path}: another process is changing this index; try again later")
        with self._writing, acquire_lock(self.path / "writer", taken=taken):
            yield self.refresh()._snapshot


def _write_segment(folder: Path, store: PassageStore, settings: dict[str, Any], vectors: Iterable[Block]) -> None:
    """Write what a segment has beside its passages; `vectors` are as `Vectors.write` takes them."""
    if "stemmer" in settings:
        write_words(store, folder / WORDS, settings["stemmer"])
    if "dim" in settings:
        Vectors.write(folder, vectors, settings["dim"])


def _encoded(folder: Path, build: Build) -> Iterator[Block]:
    """Yield the vectors of the passages that a killed build has not encoded."""
    total, first = len(build.store), (folder / LENGTHS).stat().st_size // 4
    build.report(first, total, "encoding passages")
    while first < total:
        some = range(first, min(first + _ENCODED_AT_ONCE, total))
        yield _encode(build.encoder, [build.store[n] for n in some])
        first = some.stop
        build.report(first, total, "encoding passages")


def _encode(encoder: Any, passages: Sequence[Passage]) -> Block:
    vectors, counts = encoder.encode_passages([str(passage) for passage in passages])
    return fixed_point(vectors), counts


def _kept(sizes: list[int]) -> int:
    """How many segments an addition leaves as they are, given the sizes of all segments with the new one as the last.

    If there would be more than `_MOST_SEGMENTS`, the first segment that is not larger than all that follow it together
    is merged with these. A passage is therefore written again only when its segment at least doubles.
    """
    if len(sizes) <= _MOST_SEGMENTS:
        return len(sizes) - 1
    return next((i for i, size in enumerate(sizes[:-1]) if size <= sum(sizes[i + 1 :])), len(sizes) - 2)
