"""What makes a folder an index: its manifest, how it is built in one piece, and how it is opened.

A build works in a hidden folder beside its target and is renamed into place when every byte is on disk, so that a
killed build leaves nothing that opens, and the same command finds its pieces again and goes on.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from knowgap.errors import IndexDamaged, IndexFolderError, IndexForeign, IndexMissing, UsageError
from knowgap.retrieval.index.files import UNFINISHED, file_digest, replace_folder, sync, write_json
from knowgap.retrieval.index.search_settings import Quality, quality_refusal
from knowgap.retrieval.passage import Retriever

__all__ = [
    "ENGINES",
    "FORMAT_VERSION",
    "Manifest",
    "Progress",
    "build_index",
    "engine_class",
    "open_index",
    "record_files",
    "takes_quality",
    "write_manifest",
]

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
_FORMAT = "knowgap-index"

ENGINES = {
    "bm25": "knowgap.retrieval.bm25:BM25Index",
    "colbert": "knowgap.retrieval.colbert.index:ColBERTIndex",
    "dense": "knowgap.retrieval.dense:DenseIndex",
    "hybrid": "knowgap.retrieval.hybrid:HybridIndex",
    "qdrant": "knowgap.retrieval.qdrant.index:QdrantIndex",
}
"""Engine name → `module:class`; the class has `open(path)`."""


class Progress(Protocol):
    """A callback that long work calls as it goes on."""

    def __call__(self, done: int, total: int, what: str, /) -> None:
        """`done` of `total` units of the step named `what` are finished."""
        ...


@dataclass(frozen=True)
class Manifest:
    """The identity of an index.

    Args:
        engine: a key of `ENGINES`.
        passages: how many passages the index was built from.
        corpus_digest: SHA-256 over ids, titles and texts in their order.
        settings: what the engine was built with; two indexes that differ here were built differently.
        checkpoint: name and digest of the encoder, where the engine has one.
        files: relative path → size in bytes and SHA-256, for every file the build wrote.
        versions: the packages that wrote it.
        version: the format of the folder.
        root: the folder inside the index where its own files are; another one after each compaction.
    """

    engine: str
    passages: int
    corpus_digest: str
    settings: dict[str, Any] = field(default_factory=dict)
    checkpoint: dict[str, Any] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    version: int = FORMAT_VERSION
    root: str = "."

    @property
    def digest(self) -> str:
        """A digest of what the index is made of (engine, settings, corpus, checkpoint), wherever it was built."""
        identity = [self.engine, self.settings, self.corpus_digest, self.checkpoint.get("digest"), self.version]
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()

    @classmethod
    def read(cls, folder: str | Path, *, engine: str | None = None) -> Manifest:
        """Read and check the manifest of an index, and that each of its files has the recorded size.

        Args:
            folder: the folder of the index.
            engine: what the index must be, if that matters.

        Raises:
            IndexMissing: nothing is at that path.
            IndexForeign: something else is, or an index of a newer format or another engine.
            IndexDamaged: an index that is not whole.
        """
        folder = Path(folder)
        if not folder.exists():
            if _workshop(folder).exists():
                raise IndexMissing(
                    f"{folder}: the build of this index was not finished; run the same command again to continue it"
                )
            raise IndexMissing(f"{folder}: no index there; build one with `knowgap index`")
        if not folder.is_dir():
            raise IndexForeign(f"{folder}: a file, not an index folder")
        if not (folder / MANIFEST).is_file():
            if folder.name.startswith(".") and folder.name.endswith(".building"):
                raise IndexDamaged(f"{folder}: a half-built index; run its build again to finish it")
            raise IndexForeign(f"{folder}: not an index (it has no {MANIFEST}); build one with `knowgap index`")
        try:
            record = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise IndexDamaged(f"{folder}: {MANIFEST} cannot be read ({error}); build the index again") from error
        if not isinstance(record, dict) or record.pop("format", None) != _FORMAT:
            raise IndexForeign(f"{folder}: {MANIFEST} is not that of a knowgap index; build one with `knowgap index`")
        if not isinstance(record.get("version"), int) or record["version"] > FORMAT_VERSION:
            raise IndexForeign(
                f"{folder}: format {record.get('version')!r}, and this knowgap reads up to {FORMAT_VERSION}; "
                "upgrade knowgap, or build the index again"
            )
        try:
            manifest = cls(**record)
        except TypeError as error:
            raise IndexDamaged(f"{folder}: {MANIFEST} is incomplete ({error}); build the index again") from error
        if engine is not None and manifest.engine != engine:
            raise IndexForeign(
                f"{folder}: an index of the engine {manifest.engine!r}, not {engine!r}; use `open_index`"
            )
        manifest.check_sizes(folder)
        return manifest

    def check_sizes(self, folder: Path) -> None:
        """Raise `IndexDamaged` where a recorded file is absent or of another size."""
        for name, recorded in self.files.items():
            path = folder / name
            size = path.stat().st_size if path.is_file() else None
            if size is None:
                raise IndexDamaged(f"{folder}: {name} is missing; copy the index again, or build it again")
            if size != recorded["size"]:
                raise IndexDamaged(
                    f"{folder}: {name} has {size} bytes instead of {recorded['size']}; "
                    "copy the index again, or build it again"
                )

    def verify(self, folder: str | Path) -> None:
        """Read every recorded file and compare its digest; `IndexDamaged` names the first that differs."""
        self.check_sizes(Path(folder))
        for name, recorded in self.files.items():
            if file_digest(Path(folder) / name) != recorded["sha256"]:
                raise IndexDamaged(f"{folder}: {name} was altered after the build; copy it again, or build it again")


def _workshop(target: Path) -> Path:
    return target.with_name(f".{target.name}.building")


def record_files(folder: Path, *, leave_out: Collection[str] = ()) -> dict[str, dict[str, Any]]:
    """Bring the files below a folder to disk.

    Args:
        folder: where they are.
        leave_out: files and folders directly in it that are not recorded.

    Returns:
        Relative path → size and SHA-256 of each.
    """
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.name.endswith(UNFINISHED):  # a killed process left it
            path.unlink()
            continue
        sync(path)
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name != MANIFEST and name.split("/")[0] not in leave_out:
            files[name] = {"size": path.stat().st_size, "sha256": file_digest(path)}
    sync(folder)
    return files


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Make a manifest that of a folder, in one step."""
    versions = {name: version(name) for name in ("knowgap", "numpy")}
    write_json(folder / MANIFEST, {**asdict(manifest), "format": _FORMAT, "versions": versions | manifest.versions})


class Workshop:
    """The folder in which a build works; `finish` turns it into the index."""

    def __init__(self, target: Path, folder: Path, overwrite: bool) -> None:
        self.target, self.folder, self._overwrite = target, folder, overwrite

    def clear(self, *, keep: Collection[str] = ()) -> None:
        """Throw away the pieces of an earlier build that cannot be used, all but those named."""
        for path in self.folder.iterdir():
            if path.name not in keep:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def stands(self, manifest: Manifest) -> bool:
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
        if self.stands(manifest):
            shutil.rmtree(self.folder)
            return
        write_manifest(
            self.folder, replace(manifest, files=record_files(self.folder, leave_out=[*leave_out, *changing]))
        )
        for name in leave_out:
            (self.folder / name).unlink(missing_ok=True)
        replace_folder(self.folder, self.target)


@contextmanager
def build_index(path: str | Path, *, overwrite: bool = False) -> Iterator[Workshop]:
    """Hold the workshop of an index; it stays, with its pieces, if the build does not come to `finish`.

    Args:
        path: the folder the index will be.
        overwrite: replace an index that stands there.

    Raises:
        IndexFolderError: another process is building the same index.
    """
    from filelock import FileLock, Timeout

    target = Path(path).absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    workshop = Workshop(target, _workshop(target), overwrite)
    lock = FileLock(target.with_name(f".{target.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise IndexFolderError(f"{target}: another process is building this index; wait for it to finish") from None
    try:
        workshop.folder.mkdir(exist_ok=True)
        yield workshop
    finally:
        # Removed while it is held: whoever waits on the removed file is told by filelock to start over.
        with suppress(OSError):
            os.unlink(lock.lock_file)
        lock.release()


def open_index(path: str | Path, *, quality: Quality | None = None, **options: Any) -> Retriever:
    """Open an index of any engine.

    Args:
        path: its folder.
        quality: how thoroughly a ColBERT index is searched: `fast`, `balanced`, `exact` or `SearchSettings`. None
            takes the engine's default.
        options: passed to the `open` of its engine.

    Raises:
        UnknownName: there is no quality of that name.
        UsageError: a quality for an index that is always searched in one way.
        IndexMissing: nothing is at that path.
        IndexForeign: something else is, or an index of an engine or format that this version does not know.
        IndexDamaged: an index that is not whole.
    """
    engine = Manifest.read(path).engine
    if engine not in ENGINES:
        raise IndexForeign(
            f"{path}: an index of the engine {engine!r}; this knowgap opens {', '.join(sorted(ENGINES))}"
        )
    opened = engine_class(engine)
    if quality is None:
        return opened.open(path, **options)
    if not takes_quality(engine):
        raise quality_refusal(path, quality)
    return opened.open(path, quality=quality, **options)


def engine_class(engine: str) -> Any:
    """The class of an engine, with `build` and `open`."""
    module, name = ENGINES[engine].split(":")
    return getattr(importlib.import_module(module), name)


def takes_quality(engine: str) -> bool:
    """Whether `open` of an engine takes a quality."""
    return getattr(engine_class(engine), "takes_quality", False)
