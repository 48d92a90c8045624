"""Files and folders that a reader sees whole or not at all: written beside their target, then renamed into place.

A killed process leaves the target as it was, and at most one hidden piece that ends in `UNFINISHED` beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

__all__ = ["UNFINISHED", "file_digest", "replace_folder", "sync", "write_file", "write_json"]

UNFINISHED = ".unfinished"


def write_file(path: str | Path, content: str | bytes) -> Path:
    """Write a file in one step, durably: even after a power cut it has its old content or the new one.

    Args:
        path: the file; its folder is made if there is none.
        content: bytes, or text, which is encoded as UTF-8 with its line ends as they are.

    Returns:
        The file.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.{os.getpid()}{UNFINISHED}")
    try:
        with beside.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)
    sync(target.parent)
    return target


def write_json(path: Path, value: Any) -> None:
    """Write a JSON value as `write_file` does, with sorted keys."""
    write_file(path, json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True) + "\n")


def replace_folder(folder: Path, target: Path) -> None:
    """Rename a finished folder to its target; a folder that stands there is removed."""
    old = target.with_name(f".{target.name}.replaced")
    if target.exists():
        shutil.rmtree(old, ignore_errors=True)
        os.replace(target, old)
    os.replace(folder, target)
    sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def sync(path: Path) -> None:
    """Have the system write a file or folder to the disk now."""
    if path.is_dir() and os.name == "nt":  # Windows has no handle for a folder
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            sha.update(block)
    return sha.hexdigest()
