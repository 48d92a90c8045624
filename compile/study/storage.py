"""Where a study is kept: Optuna's storages in memory, in SQLite or a journal file, on a PostgreSQL or MySQL server."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowgap.errors import MissingDependency, StudyError, UsageError, shorten, without_credentials
from knowgap.storage.files import check_writable, naming

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from sqlalchemy.engine import Engine

_SQLITE = (".db", ".sqlite", ".sqlite3")
_JOURNAL = (".journal", ".log", ".jsonl")
_DRIVERS = {"postgresql": ("psycopg", "psycopg2"), "mysql": ("pymysql",)}
_ATTEMPTS = 5


@contextmanager
def open_storage(storage: str | Path | BaseStorage | None, *, heartbeat: int = 15) -> Iterator[BaseStorage]:
    """Open the storage of studies, or create it; errors of the storage inside the block name it.

    Args:
        storage: a path that ends in `.db`, `.sqlite` or `.sqlite3` (SQLite) or in `.journal`, `.log` or `.jsonl`
            (journal file), or a database URL (`sqlite:///…`, `postgresql://…`, `mysql://…`), or a storage of
            Optuna's; None keeps the study in memory, for this call alone.
        heartbeat: seconds between the heartbeats of a running trial, in a database; after four missed ones its process
            counts as dead.

    Raises:
        UsageError: a path with another ending.
        StudyError: a file that is no such storage, or a database that cannot be read or written.
        OSError: a file that cannot be read or written.
        MissingDependency: no driver for that server is installed.
    """
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    shown, opened = without_credentials(str(storage)), None
    try:
        with naming(shown):
            opened = _open(storage, heartbeat)
            yield opened
    except (SQLAlchemyError, StorageInternalError) as error:
        reason = _first_line(error.__cause__ if isinstance(error, StorageInternalError) else error)
        raise StudyError(f"{shown}: {reason}; the same command continues the study once the storage works") from error
    finally:
        engine = getattr(opened, "engine", None)
        if engine is not None:
            engine.dispose()  # connections are opened again when they are needed


def storage_file(storage: str | Path | BaseStorage | None) -> Path | None:
    """The file that keeps a study; None in memory, on a server, and for a storage of the user's."""
    text = str(storage).removeprefix("sqlite:///")
    return None if not isinstance(storage, (str, Path)) or "://" in text else Path(text).expanduser()


def _open(storage: str | Path | BaseStorage | None, heartbeat: int) -> BaseStorage:
    from optuna.storages import InMemoryStorage

    path, text = storage_file(storage), str(storage)
    if storage is None:
        return InMemoryStorage()
    if not isinstance(storage, (str, Path)):
        return storage
    if path is None:
        return _open_database(text, heartbeat)
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file for the study, such as {path / 'studies.db'}")
    path.parent.mkdir(parents=True, exist_ok=True)
    if "://" in text or path.suffix in _SQLITE:
        return _open_database(f"sqlite:///{path}", heartbeat)
    if path.suffix in _JOURNAL:
        return _open_journal(path)
    raise UsageError(
        f"storage {text!r}: name a SQLite file ({', '.join(_SQLITE)}), a journal file ({', '.join(_JOURNAL)}) "
        "or a database URL (postgresql://…, mysql://…)"
    )


def _open_database(url: str, heartbeat: int) -> BaseStorage:
    from optuna.exceptions import ExperimentalWarning, OptunaError
    from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError
    from sqlalchemy.pool import NullPool

    shown, in_file = without_credentials(url), url.startswith("sqlite")
    scheme, separator, rest = url.partition("://")
    if scheme in _DRIVERS:
        installed = [driver for driver in _DRIVERS[scheme] if find_spec(driver) is not None]
        url = f"{scheme}+{(installed or _DRIVERS[scheme])[0]}{separator}{rest}"
    options = {"poolclass": NullPool, "connect_args": {"timeout": 120}} if in_file else {"pool_pre_ping": True}
    attempt = 0
    while True:
        attempt += 1
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
        except (OptunaError, RuntimeError, SQLAlchemyError, ValueError) as error:
            # Processes that start together on an empty database may collide while they create its tables.
            if attempt == _ATTEMPTS or not isinstance(error, DBAPIError):
                if in_file:
                    check_writable(Path(url.removeprefix("sqlite:///")))
                raise StudyError(f"{shown} cannot be opened as a study storage: {_first_line(error)}") from error
        else:
            if in_file:
                _serialize_transactions(storage.engine)
            return storage


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


def _open_journal(path: Path) -> BaseStorage:
    from filelock import FileLock
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    lock: Any = FileLock(f"{path}.lock")  # Optuna's own would stay for 30 s after a killed process
    with lock:
        content = path.read_bytes() if path.exists() else b""
        if content and b'"op_code"' not in content.partition(b"\n")[0]:
            raise StudyError(f"{path} cannot be opened as a study journal: it is some other file")
        if not content.endswith(b"\n") and content:  # a full disk cut the line off; the next would be appended to it
            os.truncate(path, content.rfind(b"\n") + 1)
    return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))


def _first_line(error: object) -> str:
    origin = getattr(error, "orig", None) or error
    return shorten((str(origin).strip() or type(origin).__name__).splitlines()[0], 300)
