"""The manifest of an index: what it is made of, and which files it has."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from knowgap.errors import IndexDamaged, IndexForeign, IndexMissing
from knowgap.retrieval.index.files import UNFINISHED, file_digest, sync, write_json

__all__ = ["FORMAT_VERSION", "Manifest", "building_folder", "record_files", "write_manifest"]

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
_FORMAT = "knowgap-index"


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
            if building_folder(folder).exists():
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
