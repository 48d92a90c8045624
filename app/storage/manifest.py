"""Sealed folders: the size and SHA-256 of every file, so that damage is noticed before a file is used.

A record of files is a JSON-ready mapping from relative path to size and digest. A file that was found intact is hashed
again only if its size or times differ from those in the stamps, which are in the file `.checked.json` in the folder.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypedDict

from knowgap.storage.files import UNFINISHED, file_digest, sync, write_file

STAMPS = ".checked.json"
_SYNCED_AT_ONCE = 8


class FileRecord(TypedDict):
    """The record of a file: its size in bytes, and its SHA-256 in hexadecimal."""

    size: int
    sha256: str


def seal(folder: Path, *, leave_out: Collection[str] = ()) -> dict[str, FileRecord]:
    """Sync the files below a folder to disk, and record them by their relative paths.

    Locks, stamps and unfinished files are removed; files and folders directly in it that `leave_out` names are not
    recorded.
    """
    files, folders = dict[str, Path](), [folder]
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.name.endswith((UNFINISHED, ".lock")) or path.name == STAMPS:
            path.unlink()
        elif path.is_dir():
            folders.append(path)
        elif name.parts[0] not in leave_out:
            files[name.as_posix()] = path
    with ThreadPoolExecutor(_SYNCED_AT_ONCE) as threads:  # syncs in parallel are written together
        list(threads.map(sync, [*files.values(), *folders]))
    return {name: {"size": path.stat().st_size, "sha256": file_digest(path)} for name, path in files.items()}


def find_damage(folder: Path, files: Mapping[str, FileRecord]) -> str | None:
    """Describe the damage of the first file of a sealed folder that differs from its record; None if all are intact.

    Files that were found intact before, and whose times have not changed, are not hashed.
    """
    stamps: dict[str, list[Any]] = {}
    for name, recorded in files.items():
        path = folder / name
        status = path.stat() if path.is_file() else None
        if status is None:
            return f"{name} is missing"
        if status.st_size != recorded["size"]:
            return f"{name} has {status.st_size} bytes instead of {recorded['size']}"
        stamps[name] = [recorded["sha256"], status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    try:
        known = json.loads((folder / STAMPS).read_bytes())
    except (OSError, ValueError):  # there are none yet, or a power cut damaged them
        known = {}
    for name, stamp in stamps.items():
        if known.get(name) != stamp and file_digest(folder / name) != stamp[0]:
            return f"{name} was altered after it was written"
    if stamps != known:
        with suppress(OSError):  # the folder may be on a read-only disk
            write_file(folder / STAMPS, json.dumps(stamps))
    return None
