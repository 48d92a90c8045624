"""Where a study is kept: a SQLite or journal file on one machine, a PostgreSQL or MySQL server for many."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowgap.errors import MissingDependency, StudyError, UsageError

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

__all__ = ["HEARTBEAT", "FileLock", "close_storage", "describe_storage", "open_storage", "taking_turns"]

HEARTBEAT = 15
"""Seconds between the signs of life that a worker leaves on a server; after four missed ones it counts as dead."""

_SQLITE = (".db", ".sqlite", ".sqlite3")
_JOURNAL = (".journal", ".log", ".jsonl")
_DRIVERS = {
    "postgresql": (("psycopg", "postgresql+psycopg"), ("psycopg2", "postgresql+psycopg2")),
    "mysql": (("pymysql", "mysql+pymysql"), ("MySQLdb", "mysql+mysqldb")),
}


def open_storage(storage: str | Path | None, *, heartbeat: int = HEARTBEAT) -> BaseStorage:
    """Open the place where studies are kept, and make it where it is absent.

    Args:
        storage: a path that ends in `.db`, `.sqlite` or `.sqlite3` (SQLite) or in `.journal`, `.log` or `.jsonl`
            (journal file), or a database URL (`sqlite:///…`, `postgresql://…`, `mysql://…`); None keeps the study in
            memory, for this call alone.
        heartbeat: seconds between signs of life, on a database server.

    Raises:
        UsageError: a path of another kind.
        StudyError: a file that is no such storage, or a server that does not answer.
        MissingDependency: no driver for that server.
    """
    from optuna.storages import InMemoryStorage

    if storage is None:
        return InMemoryStorage()
    text = str(storage)
    if "://" in text:
        return _open_database(text, heartbeat)
    path = Path(text).expanduser()
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file for the study, such as {path / 'studies.db'}")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in _SQLITE:
        return _open_database(f"sqlite:///{path}", heartbeat)
    if path.suffix in _JOURNAL:
        return _open_journal(path)
    raise UsageError(
        f"storage {text!r}: name a SQLite file ({', '.join(_SQLITE)}), a journal file ({', '.join(_JOURNAL)}) "
        "or a database URL (postgresql://…, mysql://…)"
    )


def close_storage(storage: BaseStorage) -> None:
    """Close connections to a database server; they are opened again when they are needed."""
    engine = getattr(storage, "engine", None)
    if engine is not None:
        engine.dispose()


def describe_storage(storage: str | Path | None) -> str:
    """The storage in words, without a password."""
    if storage is None:
        return "memory"
    text = str(storage)
    if "://" not in text:
        return text
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(text).render_as_string(hide_password=True)
    except ArgumentError:
        return text.partition("://")[0] + "://…"


def _open_database(url: str, heartbeat: int) -> BaseStorage:
    from optuna.exceptions import OptunaError
    from optuna.storages import RDBStorage
    from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
    from sqlalchemy.pool import NullPool

    shown = describe_storage(url)
    local = url.startswith("sqlite")
    if local:
        settings: dict[str, Any] = {"engine_kwargs": {"poolclass": NullPool, "connect_args": {"timeout": 120}}}
    else:
        settings = {"heartbeat_interval": heartbeat, "grace_period": 4 * heartbeat}
        settings["engine_kwargs"] = {"pool_pre_ping": True}
    problem: Exception | None = None
    for _ in range(5):  # workers that start together on an empty database may trip over each other's new tables
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*heartbeat_interval.*")
                return RDBStorage(url if local else _with_driver(url), **settings)
        except (ImportError, ModuleNotFoundError) as error:
            raise MissingDependency(f"{shown}: its database driver is not installed ({error})") from error
        except DBAPIError as error:
            problem = error
        except (ArgumentError, OptunaError, RuntimeError, SQLAlchemyError) as error:
            raise StudyError(f"{shown} cannot be opened as a study storage: {_first_line(error)}") from error
    raise StudyError(f"{shown} cannot be opened as a study storage: {_first_line(problem)}") from problem


def _with_driver(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    for module, full in _DRIVERS.get(scheme, ()):
        if find_spec(module) is not None:
            return full + separator + rest
    if scheme in _DRIVERS:
        names = " or ".join(module for module, _ in _DRIVERS[scheme])
        raise MissingDependency(f"a study on {scheme} needs a driver: pip install {names.split(' or ')[0]}")
    return url


def _first_line(error: object) -> str:
    origin = getattr(error, "orig", None) or error
    return (str(origin).strip() or type(origin).__name__).splitlines()[0][:300]


def _open_journal(path: Path) -> BaseStorage:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    lock = _file_lock(path.with_name(f"{path.name}.lock"))
    if lock is not None and path.exists():
        _drop_torn_end(path, lock)
    try:
        return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))  # pyright: ignore[reportArgumentType]
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # what other content makes of its reader
        raise StudyError(f"{path} cannot be opened as a study journal: {_first_line(error)}") from error


def _drop_torn_end(path: Path, lock: Any) -> None:
    """Cut off a last line that a killed process did not finish: what is appended to it would be lost with it."""
    lock.acquire()
    try:
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            if not content.startswith(b"{"):
                raise StudyError(f"{path} cannot be opened as a study journal: it is something else")
            os.truncate(path, whole)
    finally:
        lock.release()


def taking_turns(storage: str | Path | None) -> FileLock | None:
    """A lock under which workers take trials, where the storage does not keep two from taking one; None elsewhere.

    SQLite has no lock on a row, so that two workers could take the same waiting trial.
    """
    text = str(storage) if storage is not None else ""
    if text.startswith("sqlite"):
        from sqlalchemy.engine import make_url

        text = make_url(text).database or ""
    elif not text.endswith(_SQLITE) or "://" in text:
        text = ""
    return _file_lock(Path(f"{text}.turn").expanduser()) if text else None


class FileLock:
    """A lock between processes, which the system takes back from one that dies.

    Args:
        path: of the file that is locked; made where it is absent.
        lock: locks an open file.
    """

    def __init__(self, path: Path, lock: Callable[[int], None]):
        self._path, self._lock = path, lock
        self._own = threading.Lock()
        self._held: list[int] = []

    def acquire(self) -> bool:
        """Wait for the lock and hold it."""
        self._own.acquire()
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        self._lock(descriptor)
        self._held.append(descriptor)
        return True

    def release(self) -> None:
        """Give the lock back, if it is held."""
        if self._held:
            os.close(self._held.pop())
            self._own.release()


def _file_lock(path: Path) -> FileLock | None:
    """A lock on a file; None where the system has none of that kind."""
    try:
        import fcntl
    except ImportError:
        return None  # Optuna's own lock file then, which a killed process holds for half a minute
    return FileLock(path, lambda descriptor: fcntl.flock(descriptor, fcntl.LOCK_EX))
