"""Building an index so that it appears in one step; `manifest` describes which files exist at each moment."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from knowgap.errors import DataError, IndexDamaged, IndexFolderError, KnowgapError, UsageError
from knowgap.retrieval.index.manifest import (
    CHECKPOINT,
    FIRST_SEGMENT,
    MANIFEST,
    Manifest,
    Segment,
    building_folder,
    check_place,
)
from knowgap.retrieval.index.passage_store import PassageStore
from knowgap.retrieval.passage import Passage
from knowgap.storage.files import acquire_lock, naming, replace_folder, write_json
from knowgap.storage.manifest import seal

STATE = "encoded.json"


@dataclass
class BuildState:
    """The progress of a build, which is written to `path` at each change."""

    path: Path
    job: dict[str, Any]  # what is built of what; a build of something else starts from the beginning
    passages: int = 0  # how many passages are encoded
    tokens: int = 0  # how many vectors are on disk for them
    cut: int = 0  # how many of them are longer than the encoder's window

    def save(self, **changes: Any) -> None:
        """Change fields by name, and write the state to disk."""
        vars(self).update(changes)
        write_json(self.path, {name: value for name, value in vars(self).items() if name != "path"})


class IndexBuild:
    """A build in progress. Made by `start_build`.

    Attributes:
        folder: where the index is written.
        segment: where its segment is written, inside the folder.
        corpus_digest: the digest of the passages that `store` wrote.
    """

    def __init__(self, target: Path, overwrite: bool) -> None:
        self.folder, self._target, self._overwrite = building_folder(target), target, overwrite
        self.segment, self.corpus_digest = self.folder / FIRST_SEGMENT, ""

    def resume(self, manifest: Manifest, **job: Any) -> BuildState:
        """Read the state of a killed build of the same index; or remove the files of another one, and begin.

        `job` are settings of the build that the manifest does not have.
        """
        path, job = self.folder / STATE, {"index": manifest.digest, "encoder": manifest.checkpoint, **job}
        try:
            state = BuildState(path, **json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            state = None
        if state is None or state.job != job:
            kept = self.folder / CHECKPOINT if "fitted" in manifest.checkpoint else self.segment
            for old in (*self.folder.iterdir(), *self.segment.glob("*")):
                if old not in (self.segment, kept) and not old.name.startswith("passages."):
                    shutil.rmtree(old) if old.is_dir() else old.unlink()
            state = BuildState(path, job)
            state.save()
        return state

    def store(self, passages: Iterable[Passage]) -> PassageStore:
        """Write the passages of the index.

        Raises:
            DataError: there are no passages, or two with the same id.
        """
        self.segment.mkdir(exist_ok=True)
        store, self.corpus_digest = PassageStore.build(passages, self.segment)
        if not len(store):
            raise DataError("there are no passages to index")
        return store

    def manifest(
        self, engine: str, store: PassageStore, settings: dict[str, Any], checkpoint: dict[str, Any]
    ) -> Manifest:
        """The manifest of the index that is being built."""
        segment = Segment(FIRST_SEGMENT, len(store), self.corpus_digest)
        return Manifest(engine, (segment,), settings, checkpoint)

    def already_built(self, manifest: Manifest) -> bool:
        """Whether the target already is this index, with the recorded digests; what was built beside it is removed.

        Raises:
            UsageError: another index is there, and is not to be overwritten.
            IndexDamaged: a damaged index with changes is there, and is not to be overwritten.
        """
        if not (self._target / MANIFEST).exists():
            return False
        try:
            existing = Manifest.parse(self._target)
            if self._overwrite:
                return False
            if existing.digest != manifest.digest:
                raise UsageError(
                    f"{self._target}: another index is already there; choose another path, or overwrite it "
                    "(--overwrite)"
                )
            existing.verify(self._target)
        except IndexDamaged as error:
            changed = {path.name for pattern in ("segment-*", "deleted-*") for path in self._target.glob(pattern)}
            if not self._overwrite and changed - {FIRST_SEGMENT}:
                raise IndexDamaged(
                    f"{error} (a new build needs --overwrite, and loses what was added and deleted)"
                ) from error
            return False  # a damaged index is replaced by the build that its error message asks for
        shutil.rmtree(self.folder)
        return True

    def finish(self, manifest: Manifest) -> None:
        """Record the files, sync everything to disk, and rename the folder to its target, which it replaces."""
        replace(manifest, files=seal(self.folder, leave_out=[STATE])).write(self.folder)
        (self.folder / STATE).unlink(missing_ok=True)
        replace_folder(self.folder, self._target)


@contextmanager
def start_build(path: str | Path, *, overwrite: bool = False) -> Iterator[IndexBuild]:
    """Build an index in the block, or continue a build; if the block is interrupted, the files so far are kept.

    They are removed if the block raises a `KnowgapError` before anything is encoded.

    Raises:
        IndexFolderError: another process is building the same index.
        IndexForeign: something other than an index is at the path.
        OSError: a file cannot be written; the error names a file, and the same build goes on from there.
    """
    with lock_index(path) as target:
        check_place(target)
        build = IndexBuild(target, overwrite)
        with naming(build.folder):
            build.folder.mkdir(exist_ok=True)
            (build.folder / MANIFEST).unlink(missing_ok=True)  # a killed build may have written it
            try:
                yield build
            except KnowgapError:  # the same command would fail again, unless it was an encoder that is missing
                if not any((build.folder / name).exists() for name in (STATE, MANIFEST)):
                    shutil.rmtree(build.folder, ignore_errors=True)
                raise


@contextmanager
def lock_index(path: str | Path) -> Iterator[Path]:
    """Keep other processes and threads from building an index in a folder during the block.

    `start_build` may be called in the block. The parent folder is created, and the absolute path is yielded.

    Raises:
        UsageError: it is the current folder.
        IndexFolderError: another process is building the same index.
        OSError: the lock cannot be made.
    """
    if not Path(path).name:
        raise UsageError(f"'{path}': an index cannot replace the current folder; name another one")
    target = Path(path).absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    taken = IndexFolderError(f"{target}: another process is building this index; wait for it to finish")
    with acquire_lock(target, taken=taken, reentrant=True):
        yield target
