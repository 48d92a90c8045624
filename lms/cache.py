"""A cache of the replies of language models on disk, which threads and processes share."""

from __future__ import annotations

import os
import pickle
import sqlite3
import threading
from pathlib import Path
from typing import Any

import dspy
from dspy.clients.cache import Cache

from knowgap.errors import UsageError

ENDPOINT_SETTINGS = ("api_base", "base_url")
"""The settings of a `dspy.LM` that say which server answers."""

CONNECTION_OPTIONS = ("timeout", "num_retries")
"""Options that do not change what a model answers: they are part of no identity and of no key of a cache."""


class Store:
    """Values by key in an SQLite file, over one connection that all threads share.

    Args:
        folder: its folder, which is made.

    Raises:
        sqlite3.Error, OSError: here, or when it is used: the file cannot be written, or is damaged.
    """

    def __init__(self, folder: str | Path) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._database = sqlite3.connect(Path(folder) / "cache.db", timeout=120, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.execute("CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID")

    def get(self, key: str) -> Any:
        """The value of a key; None if there is none, or it cannot be read since a library has changed."""
        with self._lock:
            found = self._database.execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()
        try:
            return None if found is None else pickle.loads(found[0])
        except Exception:  # of any type: unpickling imports what has changed; the reply is asked for again
            return None

    def set(self, key: str, value: Any) -> None:
        """Store a value."""
        row = key, pickle.dumps(value)
        with self._lock, self._database as database:
            database.execute("INSERT OR REPLACE INTO entries VALUES (?, ?)", row)


class _EndpointCache(Cache):
    """DSPy's cache, separate for each endpoint: two servers may serve different models under one name.

    The key leaves out timeouts and retries.

    Args:
        folder: the folder of its one file (DSPy's own cache has sixteen); None keeps it in memory only.
    """

    def __init__(self, folder: str | None) -> None:
        # What is kept in memory is limited: the answers of a study would take gigabytes, and are on disk.
        options: dict[str, Any] = {"memory_max_entries": 10_000} if folder is not None else {}
        super().__init__(False, True, folder, **options)
        if folder is not None:
            self.enable_disk_cache = True
            self.disk_cache = Store(folder)

    def cache_key(self, request: dict[str, Any], ignored_args_for_cache_key: list[str] | None = None) -> str:
        ignored = [name for name in ignored_args_for_cache_key or () if name not in ENDPOINT_SETTINGS]
        return super().cache_key(request, [*ignored, *CONNECTION_OPTIONS])


def quiet_dspy(cache_dir: str | Path | None = None) -> None:
    """Keep DSPy off the network and out of the home folder.

    DSPy uses its packaged table of model prices, and caches replies in `cache_dir`, separately for each endpoint, or
    only in memory where that is None. Call this once, before the first language model is used.

    Raises:
        UsageError: the cache cannot be written, or is damaged.
    """
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "true")
    module: Any = dspy
    try:
        module.cache = _EndpointCache(None if cache_dir is None else str(Path(cache_dir).expanduser()))
    except (sqlite3.Error, OSError) as error:
        raise UsageError(f"{cache_dir} cannot be used as a cache ({error}): free some space, or remove it") from error
