"""Atomic writing of files and folders, which are written beside their target and then renamed into place.

A writer holds the lock `.NAME.lock`, which the system releases when the process dies. A killed writer leaves the target
as it was, and at most its lock and the hidden `.NAME.unfinished` beside it; the next writer of the same target removes
both.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

UNFINISHED = ".unfinished"
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


def write_file(path: str | Path, content: str | bytes) -> Path:
    """Write a file in one step, durably: even after a power cut it has its old content or the new one.

    Args:
        path: the file; its folder is made if there is none.
        content: bytes, or text, which is encoded as UTF-8 with its line ends as they are.

    Raises:
        OSError: it cannot be written; the error names a file, and the target is as it was.
    """
    target = Path(path)
    with _unfinished(target) as beside:
        with beside.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
        sync(target.parent)
    return target


def write_json(path: Path, value: Any) -> None:
    """Write a JSON value as `write_file` does, with sorted keys."""
    write_file(path, json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True) + "\n")


@contextmanager
def write_folder(target: Path) -> Iterator[Path]:
    """Write a folder in one step: the block fills the folder that it gets, which then replaces the target."""
    with _unfinished(target) as beside:
        beside.mkdir()
        yield beside
        replace_folder(beside, target)


@contextmanager
def _unfinished(target: Path) -> Iterator[Path]:
    """Hold the lock of a target, and yield the path at which it is prepared; what remains there is removed."""
    target = target.absolute()  # the current folder, ".", has no name of its own
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}{UNFINISHED}")
    with acquire_lock(target), naming(target):
        _remove(beside)
        try:
            yield beside
        finally:
            _remove(beside)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def acquire_lock(target: Path, *, taken: Exception | None = None, reentrant: bool = False) -> Iterator[None]:
    """Hold the lock `.NAME.lock` beside a file or folder in the block.

    Args:
        target: the file or folder, which need not exist.
        taken: the error that is raised if the lock is not free; None waits for it.
        reentrant: a thread that holds the lock may take it again; it is free once every holder has released it.

    Raises:
        OSError: the lock cannot be made.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(target.with_name(f".{target.name}.lock"), is_singleton=reentrant)
    try:
        lock.acquire(timeout=-1 if taken is None else 0)
    except Timeout as error:
        raise taken or error from None
    try:
        yield
    finally:
        # The file is removed while the lock is held; filelock makes a process that waits for it start over.
        if lock.lock_counter == 1:
            with suppress(OSError):
                os.unlink(lock.lock_file)
        lock.release()


def replace_folder(folder: Path, target: Path) -> None:
    """Replace the target by a finished folder, and remove the old target.

    The two are exchanged in one step. If the system or the disk cannot do that, the old one is removed first.
    """
    if not target.exists() or not _exchange(folder, target):
        shutil.rmtree(target, ignore_errors=True)
        os.replace(folder, target)
    sync(target.parent)
    shutil.rmtree(folder, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two paths in one step; return False if that cannot be done."""
    function = getattr(ctypes.CDLL(None), "renameat2", None)
    return function is not None and function(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Add the path to an `OSError` of the block that names no file."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def sync(path: Path) -> None:
    """Have the system write a file or folder to the disk now."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def json_digest(value: Any) -> str:
    """The SHA-256 of a JSON value, in hexadecimal; the order of keys does not count."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def file_digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            sha.update(block)
    return sha.hexdigest()


def folder_digest(folder: Path) -> str:
    """The SHA-256 of the names and contents of a folder's files, in hexadecimal."""
    return json_digest([[path.name, file_digest(path)] for path in sorted(folder.iterdir()) if path.is_file()])
