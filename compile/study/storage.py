"""Where a study is kept: in memory, in a SQLite file, on a database server, or in a storage of the user's."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from optuna.exceptions import ExperimentalWarning, OptunaError
from optuna.storages import BaseStorage, InMemoryStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from knowgap.errors import StudyError, UsageError, shorten, without_credentials
from knowgap.storage.files import acquire_lock

_SQLITE: dict[str, Any] = {"poolclass": NullPool, "connect_args": {"timeout": 120, "isolation_level": None}}


@contextmanager
def open_storage(storage: str | Path | BaseStorage | None, heartbeat: int = 60) -> Iterator[BaseStorage]:
    """Open Optuna's storage, or create it; errors of the database inside the block name it.

    Args:
        storage: a SQLite file, a database URL (`postgresql+psycopg://…`), or a storage of Optuna's. None keeps the
            study in memory.
        heartbeat: seconds between the heartbeats of a running trial; one that misses two is run again.

    Raises:
        UsageError: a path that is no database's.
        StudyError: a database that cannot be opened, read or written.
        OSError: a file that cannot be written.
    """
    shown, file = without_credentials(str(storage)), sqlite_file(storage)
    if file is not None and file.suffix not in (".db", ".sqlite", ".sqlite3"):
        raise UsageError(f"storage {shown!r}: name a SQLite file (.db) or a database URL (postgresql+psycopg://…)")
    try:
        if storage is None or isinstance(storage, BaseStorage):
            yield storage or InMemoryStorage()
            return
        url, options = (str(storage), {}) if file is None else (f"sqlite:///{file}", _SQLITE)
        with nullcontext() if file is None else acquire_lock(file), warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            retry = RetryHeartbeatStaleTrialCallback()
            try:
                opened = RDBStorage(url, options, heartbeat_interval=heartbeat, heartbeat_stale_trial_callback=retry)
            except (ImportError, ValueError) as error:  # no driver is installed, or no such server is known
                raise StudyError(f"{shown} cannot be opened: {shorten(error, 200)}") from error
        if file is not None:  # SQLite has no lock on a row: else two processes could take the same waiting trial
            event.listen(opened.engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        yield opened
    except (OptunaError, SQLAlchemyError) as error:
        origin: Any = error.__cause__ or error
        reason = shorten(str(getattr(origin, "orig", None) or origin).strip().splitlines()[0], 300)
        raise StudyError(f"{shown}: {reason}; the same command continues the study once the storage works") from error


def sqlite_file(storage: str | Path | BaseStorage | None) -> Path | None:
    """The file that keeps a study, if it is one."""
    text = str(storage).removeprefix("sqlite:///")
    return Path(text).expanduser() if isinstance(storage, (str, Path)) and "://" not in text else None
