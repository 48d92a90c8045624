"""The folder of an index: what is where, at each moment; and the manifest, which says what the index is made of.

    index/
        manifest.json          engine, settings, checkpoint, digest of the corpus; size and SHA-256 of every file below
        checkpoint/            the embedded ColBERT checkpoint, if the index was encoded with it
        passages.*             ids, titles and texts (`passage_store`)
        tokens.*, …            vectors; centroids and compressed vectors (`knowgap.retrieval.colbert`)
        bm25/                  word statistics of a BM25 index
        bm25/, dense/, …       the parts of a hybrid index, each an index
        changes.*              what was added and deleted since the index was built (`changes`)
        compacted-N/           the files that the N-th compaction wrote, in place of those above it
        .checked.json          which files had the right digests, and their sizes and times at that moment
        .writer.lock           locked by the process that changes the index
    .index.building/           an unfinished build
    .index.lock                locked by the process that builds

No path is recorded, so the folder can be moved and copied. A checkpoint outside the index is recorded by name and
digest.

**Building** (`build`). A build writes to `.index.building`. When every byte is on disk, it writes the manifest and
renames the folder to its target. A kill leaves no folder at the target, so nothing opens; the same command continues
the build, whose `encoded.json` says how many passages are encoded. A build of something else, or with other settings,
removes the pieces and starts anew. An index that is overwritten changes places with the finished folder in one step
(`files.replace_folder`), and is then removed. If the target is this very index already, its digests are verified
(`Manifest.verify`): if all are right, nothing is built; if not, the index is replaced. A damaged index that was changed
after its build is replaced only with `overwrite`, because deleted passages would come back.

**Opening.** The manifest, which holds its own digest, is read, and every file must have its recorded size and digest. A
file is hashed again only if its size or times differ from those in `.checked.json`; where that file cannot be written,
every process hashes all. `Manifest.verify` always hashes all. The changes are read at the first use of the index, and
their sizes and digests are compared.

**Changing** (`changes`). `changes.jsonl`, `changes.f16`, `changes.i32` and `changes.deleted.i64` hold added passages,
their vectors, the number of vectors of each, and positions of deleted passages. `changes.json` says how many changes
there were (the generation), how many bytes of each file count, and the SHA-256 of these bytes. A writer takes
`.writer.lock`; if there is no record, it writes one of no changes, and notes in the manifest that there is one. It
appends to the files, and then replaces the record; it hashes what it appends. A kill before that last step leaves the
index as it was: whatever is beyond the recorded sizes is ignored, and cut off by the next writer. A reader sees the
record that it read, until it refreshes. If the record is lost, or one of its files is lost or altered, the index is
refused. Records of earlier versions have no digests; their files are checked by size until the next change.

**Compacting** (`updates.compact`). The passages that are left, and their vectors, are written to a new folder
`compacted-N`; replacing the manifest, whose `root` names that folder, makes it the index, without changes. The files of
before are then removed. A kill leaves the old index or the new one, and files that the manifest does not name, which
the next compaction removes. A reader that has mapped the old files keeps them until it refreshes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from shlex import quote
from typing import Any

from knowgap.errors import IndexDamaged, IndexForeign, IndexMissing
from knowgap.retrieval.index.changes import Changes
from knowgap.storage.files import (
    UNFINISHED,
    file_digest,
    json_digest,
    restore_folder,
    sync,
    write_json,
)

__all__ = ["FORMAT_VERSION", "Manifest", "building_folder", "record_files", "write_manifest"]

FORMAT_VERSION = 1
MANIFEST, CHECKED = "manifest.json", ".checked.json"
_DIGEST = "sha256"  # of everything else in the manifest
_FORMAT = "knowgap-index"
_REMEDY = "build one with `knowgap index --corpus FILE --index FOLDER`"


@dataclass(frozen=True)
class Manifest:
    """The identity of an index.

    Args:
        engine: a key of `ENGINES`.
        passages: how many passages the index was built from.
        corpus_digest: SHA-256 over ids, titles and texts in their order.
        settings: what the engine was built with; two indexes that differ here were built differently.
        checkpoint: name and digest of the encoder, if the engine has one.
        files: relative path → size in bytes and SHA-256, for every file that the build wrote.
        versions: the packages that wrote it.
        version: the format of the folder.
        root: the folder of the files of the built part, relative to the index; another one after each compaction.
        changed: whether the built part has a record of changes, without which the index is damaged.
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
    changed: bool = False

    @property
    def digest(self) -> str:
        """A digest of what the index is made of (engine, settings, corpus, checkpoint), wherever it was built."""
        identity = [self.engine, self.settings, self.corpus_digest, self.checkpoint.get("digest"), self.version]
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()

    @classmethod
    def read(cls, folder: str | Path, *, engine: str | None = None) -> Manifest:
        """Read and check the manifest of an index, and that each of its files is as it was recorded.

        Args:
            folder: the folder of the index.
            engine: what the index must be, if that matters.

        Raises:
            IndexMissing: nothing is at that path.
            IndexForeign: something else is, or an index of a newer format or another engine.
            IndexDamaged: an index that is not whole.
        """
        folder = Path(folder)
        restore_folder(folder)
        _check_is_index(folder)
        try:
            content = (folder / MANIFEST).read_bytes()
            record = json.loads(content)
        except (OSError, ValueError, RecursionError) as error:
            raise IndexDamaged(f"{folder}: {MANIFEST} cannot be read ({error}); build the index again") from error
        if not isinstance(record, dict) or record.get("format") != _FORMAT:
            raise IndexForeign(f"{folder}: {MANIFEST} is not that of a knowgap index; {_REMEDY}")
        if not isinstance(record.get("version"), int) or record["version"] > FORMAT_VERSION:
            raise IndexForeign(
                f"{folder}: format {record.get('version')!r}, and this knowgap reads up to {FORMAT_VERSION}; "
                "upgrade knowgap, or build the index again"
            )
        digest = record.pop(_DIGEST, None)  # manifests of earlier versions have none
        if digest is not None and digest != json_digest(record):
            raise IndexDamaged(f"{folder}: {MANIFEST} was altered; copy it again, or build the index again")
        try:
            manifest = cls(**{name: value for name, value in record.items() if name != "format"})
        except TypeError as error:
            raise IndexDamaged(f"{folder}: {MANIFEST} is incomplete ({error}); build the index again") from error
        if engine is not None and manifest.engine != engine:
            raise IndexForeign(
                f"{folder}: an index of the engine {manifest.engine!r}, not {engine!r}; use `open_index`"
            )
        try:
            manifest.check_files(folder)
        except IndexDamaged:
            if (folder / MANIFEST).read_bytes() != content:  # another process has compacted the index meanwhile
                return cls.read(folder, engine=engine)
            raise
        return manifest

    def check_files(self, folder: Path, *, anew: bool = False) -> None:
        """Raise `IndexDamaged` if a recorded file is absent, or has another size or digest.

        Args:
            folder: the folder of the index.
            anew: hash also files that were found right and have not changed since.
        """
        remedy = "copy the index again, or build it again"
        stamps: dict[str, list[Any]] = {}
        for name, recorded in self.files.items():
            path = folder / name
            status = path.stat() if path.is_file() else None
            if status is None:
                raise IndexDamaged(f"{folder}: {name} is missing; {remedy}")
            if status.st_size != recorded["size"]:
                raise IndexDamaged(
                    f"{folder}: {name} has {status.st_size} bytes instead of {recorded['size']}; {remedy}"
                )
            stamps[name] = [recorded["sha256"], status.st_size, status.st_mtime_ns, status.st_ctime_ns]
        known = {} if anew else _read_stamps(folder)
        for name, stamp in stamps.items():
            if known.get(name) != stamp and file_digest(folder / name) != stamp[0]:
                raise IndexDamaged(f"{folder}: {name} was altered after the build; {remedy}")
        if stamps != known:
            with suppress(OSError):  # the index may be on a read-only disk
                write_json(folder / CHECKED, stamps)

    def verify(self, folder: str | Path) -> None:
        """Compare the digests of all recorded files and of the changes; `IndexDamaged` names the first that differs."""
        self.check_files(Path(folder), anew=True)
        Changes(Path(folder) / self.root, self.settings.get("dim", 1), recorded=self.changed)


def _read_stamps(folder: Path) -> dict[str, Any]:
    """By file, the digest, size and times at which it was found right."""
    try:
        stamps = json.loads((folder / CHECKED).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return stamps if isinstance(stamps, dict) else {}


def _check_is_index(folder: Path) -> None:
    """Raise `IndexMissing`, `IndexForeign` or `IndexDamaged` unless the folder has a manifest."""
    if not folder.exists():
        if building_folder(folder).exists():
            raise IndexMissing(
                f"{folder}: the build of this index was not finished; run the same command again to continue it"
            )
        raise IndexMissing(
            f"{folder}: no index there; build one with `knowgap index --corpus FILE --index {quote(str(folder))}`"
        )
    if not folder.is_dir():
        raise IndexForeign(f"{folder}: a file, not an index folder")
    if not (folder / MANIFEST).is_file():
        if folder.name.startswith(".") and folder.name.endswith(".building"):
            raise IndexDamaged(f"{folder}: a half-built index; run its build again to finish it")
        raise IndexForeign(f"{folder}: not an index (it has no {MANIFEST}); {_REMEDY}")


def building_folder(target: Path) -> Path:
    """The hidden folder beside an index in which it is built."""
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
        if path.name.endswith((UNFINISHED, ".lock")) or path.name == CHECKED:  # a killed process left it, or a part
            path.unlink()
            continue
        sync(path)
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name != MANIFEST and name.split("/")[0] not in leave_out:
            files[name] = {"size": path.stat().st_size, "sha256": file_digest(path)}
    sync(folder)
    return files


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a folder, in one step."""
    versions = {name: version(name) for name in ("knowgap", "numpy")}
    record = {**asdict(manifest), "format": _FORMAT, "versions": versions | manifest.versions}
    write_json(folder / MANIFEST, {**record, _DIGEST: json_digest(record)})
