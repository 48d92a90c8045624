"""Where a study is kept: in memory, in a SQLite or journal file on one machine, or on a PostgreSQL or MySQL server."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowgap.errors import MissingDependency, StudyError, UsageError, shorten
from knowgap.storage.files import naming

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from sqlalchemy.engine import Engine

HEARTBEAT = 15
"""Seconds between the heartbeats of a trial in a database; after four missed ones its process counts as dead."""

_SQLITE = (".db", ".sqlite", ".sqlite3")
_JOURNAL = (".journal", ".log", ".jsonl")
_DRIVERS = {"postgresql": ("psycopg", "psycopg2"), "mysql": ("pymysql",)}


def open_storage(storage: str | Path | None, *, heartbeat: int = HEARTBEAT) -> BaseStorage:
    """Open the storage of studies, and create it if it does not exist.

    Args:
        storage: a path that ends in `.db`, `.sqlite` or `.sqlite3` (SQLite) or in `.journal`, `.log` or `.jsonl`
            (journal file), or a database URL (`sqlite:///…`, `postgresql://…`, `mysql://…`); None keeps the study in
            memory, for this call alone.
        heartbeat: seconds between the heartbeats of a running trial, in a database.

    Raises:
        UsageError: a path with another ending.
        StudyError: a file that is no such storage, or a server that does not answer.
        MissingDependency: no driver for that server is installed.
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


@contextmanager
def storage_errors(storage: str | Path | None) -> Iterator[None]:
    """Let an error of a storage say which storage it is.

    Raises:
        StudyError: a database that cannot be read or written.
        OSError: a journal that cannot be read or written; the error names it.
    """
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    shown = describe_storage(storage)
    try:
        with naming(shown):
            yield
    except (SQLAlchemyError, StorageInternalError) as error:
        reason = _first_line(error.__cause__ if isinstance(error, StorageInternalError) else error)
        raise StudyError(f"{shown}: {reason}; the same command continues the study once the storage works") from error


def close_storage(storage: BaseStorage) -> None:
    """Close the connections to a database; they are opened again when they are needed."""
    engine = getattr(storage, "engine", None)
    if engine is not None:
        engine.dispose()


def storage_path(storage: str | Path | None) -> Path | None:
    """The file that keeps a study; None in memory and on a server."""
    if storage is None or "://" not in str(storage):
        return Path(storage).expanduser() if storage is not None else None
    from sqlalchemy.engine import make_url

    url = make_url(str(storage))
    in_file = url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")
    return Path(str(url.database)) if in_file else None


def describe_storage(storage: str | Path | None) -> str:
    """The storage in words, without a password."""
    if storage is None or "://" not in str(storage):
        return "memory" if storage is None else str(storage)
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(str(storage)).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        return str(storage).partition("://")[0] + "://…"


def _open_database(url: str, heartbeat: int) -> BaseStorage:
    from optuna.exceptions import ExperimentalWarning, OptunaError
    from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
    from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
    from sqlalchemy.pool import NullPool

    shown, in_file = describe_storage(url), url.startswith("sqlite")
    scheme, separator, rest = url.partition("://")
    if scheme in _DRIVERS:
        installed = [driver for driver in _DRIVERS[scheme] if find_spec(driver) is not None]
        url = f"{scheme}+{(installed or _DRIVERS[scheme])[0]}{separator}{rest}"
    options = {"poolclass": NullPool, "connect_args": {"timeout": 120}} if in_file else {"pool_pre_ping": True}
    problem: Exception | None = None
    for _ in range(5):  # processes that start together on an empty database may collide while they create its tables
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExperimentalWarning)
                storage = RDBStorage(
                    url,
                    engine_kwargs=options,
                    heartbeat_interval=heartbeat,
                    grace_period=4 * heartbeat,
                    heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(),
                )
        except ImportError as error:
            driver = getattr(error.__cause__ or error.__context__, "name", None) or "its driver"
            raise MissingDependency(f"a study on {shown} needs a database driver: pip install {driver}") from error
        except DBAPIError as error:
            problem = error
        except (ArgumentError, OptunaError, RuntimeError, SQLAlchemyError, ValueError) as error:
            raise StudyError(f"{shown} cannot be opened as a study storage: {_first_line(error)}") from error
        else:
            if in_file:
                _serialize_transactions(storage.engine)
            return storage
    raise StudyError(f"{shown} cannot be opened as a study storage: {_first_line(problem)}") from problem


def _serialize_transactions(engine: Engine) -> None:
    """Let every transaction lock SQLite from its beginning (SQLAlchemy's recipe).

    SQLite has no lock on a row: without this, two processes could take the same waiting trial.
    """
    from sqlalchemy import event

    @event.listens_for(engine, "connect")
    def leave_transactions_to_sqlalchemy(connection: Any, record: object) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def lock(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _first_line(error: object) -> str:
    origin = getattr(error, "orig", None) or error
    return shorten((str(origin).strip() or type(origin).__name__).splitlines()[0], 300)


def _open_journal(path: Path) -> BaseStorage:
    from filelock import FileLock
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    lock: Any = FileLock(path.with_name(f"{path.name}.lock"))  # Optuna's own would stay for 30 s after a killed process
    with naming(path), lock:
        content = path.read_bytes() if path.exists() else b""
        whole = content.rfind(b"\n") + 1
        if content and not content.startswith(b"{"):
            raise StudyError(f"{path} cannot be opened as a study journal: it is something else")
        if whole < len(content):  # a line that a full disk cut off; the next one would be appended to it
            os.truncate(path, whole)
    try:
        return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # what Optuna makes of other content
        raise StudyError(f"{path} cannot be opened as a study journal: {_first_line(error)}") from error
