"""Building an index so that it appears in one step; `manifest` describes which files exist at each moment."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from knowgap.errors import DataError, IndexFolderError, IndexForeign, KnowgapError, UsageError
from knowgap.retrieval.index.manifest import CHECKPOINT, FIRST_SEGMENT, MANIFEST, Manifest, building_folder
from knowgap.retrieval.index.passage_store import PassageStore
from knowgap.retrieval.passage import Passage
from knowgap.storage.files import acquire_lock, naming, replace_folder, write_json
from knowgap.storage.manifest import seal

JOB = "job.json"


class IndexBuild:
    """A build in progress, made by `start_build`.

    Attributes:
        folder: where the index is written.
        segment: where its segment is written, inside the folder.
        store: its passages.
        corpus_digest: their digest.

    Raises:
        DataError: there are no passages, or two with the same id.
    """

    def __init__(self, target: Path, passages: Iterable[Passage]) -> None:
        self.folder, self._target = building_folder(target), target
        self.segment = self.folder / FIRST_SEGMENT
        self.segment.mkdir(parents=True, exist_ok=True)
        (self.folder / MANIFEST).unlink(missing_ok=True)  # a killed build may have written it
        self.store, self.corpus_digest = PassageStore.build(passages, self.segment)
        if not len(self.store):
            raise DataError("there are no passages to index")

    def is_done(self, manifest: Manifest, *, overwrite: bool) -> bool:
        """Whether the target already is the index of this manifest; what was built beside it is removed then.

        Raises:
            UsageError: another index is there, and is not to be overwritten.
            IndexDamaged, IndexForeign: it cannot be read, and is not to be overwritten.
        """
        if overwrite or not (self._target / MANIFEST).exists():
            return False
        if Manifest.read(self._target).digest != manifest.digest:
            raise UsageError(
                f"{self._target}: another index is already there; choose another path, or overwrite it (--overwrite)"
            )
        shutil.rmtree(self.folder)
        return True

    def resume(self, manifest: Manifest, prepare: Callable[[], None] | None = None, **job: Any) -> bool:
        """Whether a killed build of the same index has left its files.

        If not, those of a build of another one are removed, and `prepare` is called before this one is recorded. `job`
        are settings of the build that the manifest does not have.
        """
        job |= {"index": manifest.digest, "encoder": manifest.checkpoint}
        path = self.folder / JOB
        if path.exists() and json.loads(path.read_bytes()) == job:
            return True
        kept = self.folder / CHECKPOINT if "fitted" in manifest.checkpoint else self.segment
        for old in (*self.folder.iterdir(), *self.segment.glob("*")):
            if old not in (self.segment, kept) and not old.name.startswith("passages."):
                shutil.rmtree(old) if old.is_dir() else old.unlink()
        if prepare is not None:
            prepare()
        write_json(path, job)
        return False

    def finish(self, manifest: Manifest) -> None:
        """Record the files, sync everything to disk, and rename the folder to its target, which it replaces."""
        replace(manifest, files=seal(self.folder, leave_out=[JOB])).write(self.folder)
        (self.folder / JOB).unlink(missing_ok=True)
        replace_folder(self.folder, self._target)


@contextmanager
def start_build(path: str | Path, passages: Iterable[Passage]) -> Iterator[IndexBuild]:
    """Build an index in the block, or continue a build; if the block is interrupted, the files so far are kept.

    They are removed if the block raises a `KnowgapError` before anything is encoded.

    Raises:
        IndexFolderError: another process is building the same index.
        IndexForeign: something other than an index is at the path.
        DataError: there are no passages, or two with the same id.
        OSError: a file cannot be written; the error names a file, and the same build goes on from there.
    """
    with lock_index(path) as target:
        if target.is_file() or (target.is_dir() and any(target.iterdir()) and not (target / MANIFEST).is_file()):
            raise IndexForeign(f"{target} holds other files, not an index; name a folder that does not exist")
        folder = building_folder(target)
        with naming(folder):
            try:
                yield IndexBuild(target, passages)
            except KnowgapError:  # the same command would fail again, unless it was an encoder that is missing
                if not any((folder / name).exists() for name in (JOB, MANIFEST)):
                    shutil.rmtree(folder, ignore_errors=True)
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
