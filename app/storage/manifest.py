"""Sealed folders: the SHA-256 of every file, so that damage is noticed before a file is used.

The record of a folder is a JSON-ready mapping from relative path to digest. A file that was found intact is hashed
again only if its size or times differ from those in the stamps, which are in the file `.checked.json` in the folder.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from knowgap.storage.files import UNFINISHED, file_digest, sync, write_file

STAMPS = ".checked.json"


def seal(folder: Path, *, leave_out: Collection[str] = ()) -> dict[str, str]:
    """Sync the files below a folder to disk, and return their digests by their relative paths.

    Locks and unfinished files are removed; files and folders directly in it that `leave_out` names are not recorded.
    """
    files, folders = dict[str, Path](), [folder]
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.name.endswith((UNFINISHED, ".lock")):
            path.unlink()
        elif path.is_dir():
            folders.append(path)
        elif name.parts[0] not in leave_out:
            files[name.as_posix()] = path
    for path in [*files.values(), *folders]:
        sync(path)
    return {name: file_digest(path) for name, path in files.items()}


def find_damage(folder: Path, files: Mapping[str, str]) -> str | None:
    """Describe the damage of the first file of a sealed folder that differs from its record; None if all are intact.

    Files that were found intact before, and whose times have not changed, are not hashed.
    """
    try:
        known = json.loads((folder / STAMPS).read_bytes())
    except (OSError, ValueError):  # there are none yet, or a power cut damaged them
        known = {}
    stamps = dict[str, list[str | int]]()
    for name, digest in files.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        status = path.stat()
        stamps[name] = [digest, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
        if known.get(name) != stamps[name] and file_digest(path) != digest:
            return f"{name} was altered after it was written"
    if stamps != known:
        with suppress(OSError):  # the folder may be on a read-only disk
            write_file(folder / STAMPS, json.dumps(stamps))
    return None
