"""Atomic writing of files and folders, which are written beside their target and then renamed into place.

A writer holds the lock `.NAME.lock`, which the system releases when the process dies, on every platform. A killed
writer leaves the target as it was, and at most its lock and the hidden `.NAME.unfinished` beside it; the next writer of
the same target removes both.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

UNFINISHED = ".unfinished"
_NO_EXCHANGE = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}  # the system or the disk cannot do it


def write_file(path: str | Path, content: str | bytes) -> Path:
    """Write a file in one step, durably: even after a power cut it has its old content or the new one.

    Args:
        path: the file; its folder is made if there is none.
        content: bytes, or text, which is encoded as UTF-8 with its line ends as they are.

    Raises:
        OSError: it cannot be written; the error names a file, and the target is as it was.
    """
    target = Path(path)
    with _unfinished(target) as beside, naming(target):
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


@contextmanager
def write_folder(target: Path) -> Iterator[Path]:
    """Write a folder in one step: the block fills the folder that it gets, which then replaces the target."""
    with _unfinished(target) as beside, naming(target):
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir()
        try:
            yield beside
            replace_folder(beside, target)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


@contextmanager
def _unfinished(target: Path) -> Iterator[Path]:
    """Hold the lock of a target, and yield the path at which it is prepared."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with acquire_lock(target):
        yield target.with_name(f".{target.name}{UNFINISHED}")


@contextmanager
def acquire_lock(target: Path, *, taken: Exception | None = None, reentrant: bool = False) -> Iterator[None]:
    """Hold the lock `.NAME.lock` beside a file or folder in the block.

    Args:
        target: the file or folder, which need not exist.
        taken: the error that is raised if the lock is not free; None waits for it.
        reentrant: a thread that holds the lock may take it again; it is free once every holder has released it.

    Raises:
        OSError: the lock cannot be made; the error names the target.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(target.with_name(f".{target.name}.lock"), is_singleton=reentrant)
    try:
        lock.acquire(timeout=-1 if taken is None else 0)
    except OSError as error:
        if taken is not None and isinstance(error, Timeout):
            raise taken from None
        raise OSError(error.errno or errno.EIO, error.strerror or str(error), str(target)) from error
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

    On Linux and macOS the two folders are exchanged in one step. If the system or the disk cannot do that, the old one
    is renamed first; if the process is killed between the two steps, a reader puts it back (`restore_folder`).
    """
    old = target.with_name(f".{target.name}.replaced")
    if target.exists() and _exchange(folder, target):
        old = folder
    else:
        shutil.rmtree(old, ignore_errors=True)
        if target.exists():
            os.replace(target, old)
        os.replace(folder, target)
    sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def restore_folder(target: Path) -> None:
    """Put back a folder that a killed writer had renamed and not yet replaced, if there is one."""
    target = target.absolute()  # the current folder has no name
    old = target.with_name(f".{target.name}.replaced")
    if old.exists() and not target.exists():
        with suppress(OSError):
            os.replace(old, target)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two paths in one step; return False if the system or the disk cannot."""
    system = {"linux": ("renameat2", [-100, one, -100, other, 2]), "darwin": ("renamex_np", [one, other, 2])}
    if sys.platform not in system:
        return False
    name, arguments = system[sys.platform]
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if function is None:
        return False
    if function(*(os.fsencode(a) if isinstance(a, Path) else a for a in arguments)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(other))


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Add the path to an `OSError` of the block that names no file."""
    try:
        yield
    except OSError as error:
        if error.filename is None and not isinstance(error, (ConnectionError, TimeoutError)):
            reason = error.strerror or str(error)  # NumPy's errors have a text only
            raise OSError(error.errno or errno.EIO, reason, str(path)) from error
        raise


def sync(path: Path) -> None:
    """Have the system write a file or folder to the disk now."""
    if path.is_dir() and os.name == "nt":  # Windows has no handle for a folder
        return
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
    """The SHA-256 of the names and contents of a folder's files, in hexadecimal; cached until one of them changes."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return _files_digest(tuple((path, path.stat().st_size, path.stat().st_mtime_ns) for path in files))


@lru_cache(maxsize=32)
def _files_digest(files: tuple[tuple[Path, int, int], ...]) -> str:
    return json_digest([[path.name, file_digest(path)] for path, *_ in files])
