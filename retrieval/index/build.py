"""Building an index in one piece: in a hidden folder, which is renamed to its target when every byte is on disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from knowgap.errors import IndexDamaged, IndexFolderError, UsageError
from knowgap.retrieval.index.files import replace_folder
from knowgap.retrieval.index.manifest import Manifest, building_folder, record_files, write_manifest

__all__ = ["IndexBuild", "Progress", "start_build"]


class Progress(Protocol):
    """A callback that long work calls as it goes on."""

    def __call__(self, done: int, total: int, what: str, /) -> None:
        """`done` of `total` units of the step named `what` are finished."""
        ...


class IndexBuild:
    """The folder in which a build works; `finish` turns it into the index."""

    def __init__(self, target: Path, folder: Path, overwrite: bool) -> None:
        self.target, self.folder, self._overwrite = target, folder, overwrite

    def clear(self, *, keep: Collection[str] = ()) -> None:
        """Throw away the pieces of an earlier build that cannot be used, all but those named."""
        for path in self.folder.iterdir():
            if path.name not in keep:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def already_built(self, manifest: Manifest) -> bool:
        """Whether the target already is this very index, so that there is nothing to build.

        Raises:
            UsageError: another index stands there, and was not to be overwritten.
            IndexForeign: something other than an index stands there; it is never replaced.
        """
        if not self.target.exists() or (self.target.is_dir() and not any(self.target.iterdir())):
            return False
        try:
            standing = Manifest.read(self.target)
        except IndexDamaged:
            return False  # a wreck, and ours: the build that its error message asks for replaces it
        if self._overwrite:
            return False
        if standing.digest == manifest.digest:
            return True
        raise UsageError(f"{self.target}: another index stands there; choose another path, or overwrite it")

    def finish(self, manifest: Manifest, *, leave_out: Collection[str] = (), changing: Collection[str] = ()) -> None:
        """Record the files, bring everything to disk, and rename the folder to its target.

        An identical index at the target is kept, and the folder thrown away. Raises as `stands` does.

        Args:
            manifest: what the index is; its files are filled in here.
            leave_out: files that serve the build only, removed at the last moment.
            changing: folders whose files go on changing, and are not recorded.
        """
        if self.already_built(manifest):
            shutil.rmtree(self.folder)
            return
        write_manifest(
            self.folder, replace(manifest, files=record_files(self.folder, leave_out=[*leave_out, *changing]))
        )
        for name in leave_out:
            (self.folder / name).unlink(missing_ok=True)
        replace_folder(self.folder, self.target)


@contextmanager
def start_build(path: str | Path, *, overwrite: bool = False) -> Iterator[IndexBuild]:
    """Hold the build of an index; it stays, with its pieces, if the build does not come to `finish`.

    Args:
        path: the folder the index will be.
        overwrite: replace an index that stands there.

    Raises:
        IndexFolderError: another process is building the same index.
    """
    from filelock import FileLock, Timeout

    target = Path(path).absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    build = IndexBuild(target, building_folder(target), overwrite)
    lock = FileLock(target.with_name(f".{target.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise IndexFolderError(f"{target}: another process is building this index; wait for it to finish") from None
    try:
        build.folder.mkdir(exist_ok=True)
        yield build
    finally:
        # Removed while it is held: whoever waits on the removed file is told by filelock to start over.
        with suppress(OSError):
            os.unlink(lock.lock_file)
        lock.release()
