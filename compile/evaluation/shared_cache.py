"""Never pay twice: retrieval lists, reranker and entailment scores shared by trials, threads and processes.

The answers of language models are shared by DSPy's own cache. These wrappers stand around a program's retriever,
reranker and entailment model while a study runs; what they keep lies in memory, and in one SQLite file where a folder
is named.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import dspy
import orjson

from knowgap.compile.evaluation.provenance import retriever_facts, versions
from knowgap.errors import UsageError
from knowgap.programs.base import Program
from knowgap.retrieval.lru_cache import LRUCache
from knowgap.retrieval.passage import Hit, Passage

__all__ = ["DEPTH", "SharedModel", "SharedRetriever", "SharedValues", "lm_cache", "share", "unshare"]

P = TypeVar("P", bound=Program)
V = TypeVar("V")
DEPTH = 50
"""Passages fetched for a query at least: the list serves every smaller k."""


class SharedValues:
    """Values by key, in a SQLite file that several processes may use at once.

    Args:
        path: the file; made where it is absent.

    Raises:
        UsageError: the file is something else.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._file = sqlite3.connect(self.path, timeout=120, isolation_level=None, check_same_thread=False)
        try:
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=NORMAL")
            self._file.execute("CREATE TABLE IF NOT EXISTS shared (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
        except sqlite3.DatabaseError as error:
            self._file.close()
            raise UsageError(f"{self.path} is not a cache that can be used ({error}): remove it") from error

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Any]:
        """Those of the values that are there."""
        found: dict[bytes, Any] = {}
        with self._lock:
            for start in range(0, len(keys), 500):
                some = keys[start : start + 500]
                marks = ",".join("?" * len(some))
                rows = self._file.execute(f"SELECT key, value FROM shared WHERE key IN ({marks})", some)
                found.update({key: orjson.loads(value) for key, value in rows})
        return found

    def put(self, values: dict[bytes, Any]) -> None:
        """Keep values; those that are there stay."""
        rows = [(key, orjson.dumps(value)) for key, value in values.items()]
        with self._lock:
            self._file.execute("BEGIN IMMEDIATE")
            self._file.executemany("INSERT OR IGNORE INTO shared VALUES (?, ?)", rows)
            self._file.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _Shared:
    """What the wrappers have in common: keys, two layers of memory, and everything else of what they wrap."""

    def __init__(self, wrapped: Any, identity: Sequence[Any], file: SharedValues | None, size: int):
        self.wrapped, self._file = wrapped, file
        self._identity = orjson.dumps([*identity, versions().get("knowgap")])
        self._memory: LRUCache[bytes, Any] = LRUCache(size)

    def _values(self, items: Sequence[V], compute: Callable[[list[V]], Sequence[Any]]) -> list[Any]:
        keys = [hashlib.sha256(self._identity + orjson.dumps(item)).digest()[:20] for item in items]
        by_key = dict(zip(keys, items, strict=True))

        def fetch(missing: list[bytes]) -> list[Any]:
            found = self._file.get(missing) if self._file is not None else {}
            unknown = [key for key in missing if key not in found]
            if unknown:
                computed = dict(zip(unknown, compute([by_key[key] for key in unknown]), strict=True))
                found |= computed
                if self._file is not None:
                    self._file.put(computed)
            return [found[key] for key in missing]

        return self._memory.get(keys, fetch)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.wrapped, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self


class SharedRetriever(_Shared):
    """A retriever that searches once for a query, deep enough for every k that a study may try.

    An index without a digest is remembered in memory alone.

    Args:
        retriever: what is searched.
        file: where lists are shared with other processes.
        depth: passages fetched at least.
    """

    def __init__(self, retriever: Any, file: SharedValues | None = None, depth: int = DEPTH):
        facts = retriever_facts(retriever)
        digest = facts.get("digest")
        super().__init__(retriever, ["search", digest, facts.get("quality")], file if digest else None, size=20_000)
        self._depth = depth

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The `k` best passages for each query."""
        depth = max(k, self._depth)

        def compute(missing: list[Any]) -> list[Any]:
            found = self.wrapped.search([query for query, _ in missing], depth)
            return [[[hit.passage.to_dict(), hit.score] for hit in hits] for hits in found]

        lists = self._values([(query, depth) for query in queries], compute)
        return [
            [Hit(Passage(**passage), score, rank) for rank, (passage, score) in enumerate(found[:k], start=1)]
            for found in lists
        ]


class SharedModel(_Shared):
    """A reranker or an entailment model that judges every pair once."""

    def __init__(self, model: Any, file: SharedValues | None = None):
        super().__init__(model, [type(model).__name__, str(getattr(model, "name", ""))], file, size=1_000_000)

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The reranker's score of each (query, text)."""
        return self._values(pairs, self.wrapped.score)

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The entailment model's probability for each (premise, hypothesis)."""
        return self._values(pairs, self.wrapped.entails)


def share(program: P, folder: str | Path | None = None) -> tuple[P, Callable[[], None]]:
    """A copy of a program whose retriever and models remember what they found.

    Args:
        program: stays as it is.
        folder: where other processes find what was remembered; memory alone where absent.

    Returns:
        The copy, and a function that closes its file.
    """
    file = SharedValues(Path(folder) / "shared.sqlite") if folder is not None else None
    copy = program.deepcopy()
    for name in ("retriever", "reranker", "entailment"):
        part = getattr(copy, name, None)
        if part is not None and not isinstance(part, _Shared):
            setattr(copy, name, SharedRetriever(part, file) if name == "retriever" else SharedModel(part, file))
    return copy, file.close if file is not None else lambda: None


def unshare(program: P) -> P:
    """Give a program back its own retriever and models, and return it."""
    for name in ("retriever", "reranker", "entailment"):
        part = getattr(program, name, None)
        if isinstance(part, _Shared):
            setattr(program, name, part.wrapped)
    return program


@contextmanager
def lm_cache(folder: str | Path | None) -> Iterator[None]:
    """Let DSPy keep the answers of language models in a folder for a while; None leaves its cache as it is."""
    if folder is None:
        yield
        return
    module: Any = dspy  # which makes its `cache` when it is first read
    before = module.cache
    Path(folder).mkdir(parents=True, exist_ok=True)
    dspy.configure_cache(enable_disk_cache=True, enable_memory_cache=True, disk_cache_dir=str(folder))
    try:
        yield
    finally:
        module.cache.disk_cache.close()
        module.cache = before
