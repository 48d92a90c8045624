"""The sources of the passages of an index, in the SQLite file `sources.db` in its folder.

It records the digest of every file that was read, the passages of each file, and their places. It is optional: an index
without it can be searched, but its passages have no places.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, astuple, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from knowgap.errors import IndexDamaged
from knowgap.retrieval.passage import Passage
from knowgap.storage.files import UNFINISHED, sync

NAME = "sources.db"
Item = TypeVar("Item")
_IDS_AT_ONCE = 500
_SCHEMA = """
create table settings (name text primary key, value text not null);
create table files (
    path text primary key, digest text, problem text not null, content text not null, same text not null
);
create index copies on files (same);
create table passages (
    id text primary key, digest text not null, file text not null references files,
    unit text not null, first integer not null, last integer not null
) without rowid;
create index passages_of_file on passages (file);
"""

_CHANGING = (
    """update passages set digest = '' where not exists (
        select * from after.passages other where other.id = passages.id and other.digest = passages.digest
    )""",
    "insert or ignore into passages select id, '', file, unit, first, last from after.passages",
    """update files set digest = null where not exists (
        select * from after.files other where other.path = files.path and other.digest is files.digest
    )""",
    "insert or ignore into files select path, null, problem, content, same from after.files",
)


@dataclass(frozen=True, slots=True)
class Source:
    """The place of a passage.

    Args:
        file: its file, relative to the folder that was indexed; control characters are escaped.
        unit: the unit of `first` and `last`: "page", "slide", "row" or "line"; empty for none.
        first: the first page, row or line of the passage, from 1; 0 for none.
        last: the last one.
        copies: other files with the same text.
    """

    file: str
    unit: str = ""
    first: int = 0
    last: int = 0
    copies: tuple[str, ...] = ()

    @property
    def position(self) -> str:
        """The position in the file, such as `page 3` or `rows 12–40`; empty without a unit."""
        if not self.unit:
            return ""
        return f"{self.unit} {self.first}" if self.first == self.last else f"{self.unit}s {self.first}–{self.last}"

    def __str__(self) -> str:
        place = f"{self.file}, {self.position}" if self.unit else self.file
        return f"{place}; also {', '.join(self.copies)}" if self.copies else place

    def to_dict(self) -> dict[str, Any]:
        """The place as a JSON-ready mapping."""
        return asdict(self)


@contextmanager
def _telling_what_is_wrong(path: Path) -> Iterator[None]:
    """Convert an error of SQLite about a file that cannot be written into an `OSError` that names the file."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise OSError(errno.ENOSPC if "full" in str(error) else errno.EIO, str(error), str(path)) from error


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The record of a file that was read or could not be read.

    Args:
        digest: the SHA-256 of the file; None if it could not be read or has to be tried again.
        problem: the reason why its text is not in the index; empty if it is.
        content: a digest of the titles and texts of its passages; empty if it could not be read.
        same: the file with the same titles and texts whose passages stand for its own; empty if they are its own.
    """

    digest: str | None
    problem: str = ""
    content: str = ""
    same: str = ""


class Sources:
    """The sources of the passages of an index, in a file that many threads may read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of_index(cls, folder: str | Path) -> Sources | None:
        """The sources in the folder of an index; None if it has none."""
        path = Path(folder) / NAME
        return cls(path) if path.is_file() else None

    @classmethod
    def create(cls, path: Path, settings: Mapping[str, Any]) -> Sources:
        """Create a file without records, and replace an existing one."""
        path.unlink(missing_ok=True)
        with _telling_what_is_wrong(path), closing(sqlite3.connect(path)) as database, database:
            database.executescript(_SCHEMA)
            rows = [(name, json.dumps(value)) for name, value in settings.items()]
            database.executemany("insert into settings values (?, ?)", rows)
        return cls(path)

    def begin_change(self, after: Sources) -> None:
        """Record that the index is about to be changed, in case that is cut off; `after` describes the changed index.

        Until `after` takes the place of these sources, the files that differ count as changed, and the passages that
        are added, replaced or removed have no digest, since the index may have them or not.
        """
        changing = Sources(self.path.with_name(NAME + UNFINISHED))
        try:
            shutil.copyfile(self.path, changing.path)
            with changing._writing() as database:
                database.execute("attach ? as after", (str(after.path),))
                for statement in _CHANGING:
                    database.execute(statement)
            changing.move_to(self.path.parent)
        finally:
            changing.path.unlink(missing_ok=True)

    def move_to(self, folder: Path) -> None:
        """Put the file into the folder of an index."""
        sync(self.path)
        os.replace(self.path, folder / NAME)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Open the file for writing, unsynchronized; `move_to` synchronizes it before it moves it into the index."""
        with _telling_what_is_wrong(self.path), closing(sqlite3.connect(self.path)) as database:
            database.execute("pragma synchronous = off")
            with database:
                yield database

    def _read(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        try:
            with closing(sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)) as database:
                return database.execute(query, arguments).fetchall()
        except sqlite3.Error as error:
            raise IndexDamaged(
                f"{self.path}: the sources of passages cannot be read ({error}); remove this file, or build again"
            ) from error

    def settings(self) -> dict[str, Any]:
        """The settings of the index's build, by name."""
        return {name: json.loads(value) for name, value in self._read("select name, value from settings")}

    def files(self) -> dict[str, FileRecord]:
        """The files by path, in the order of their paths."""
        return {path: FileRecord(*record) for path, *record in self._read("select * from files order by path")}

    def counts(self) -> dict[str, int]:
        """How many passages each file has; a file without passages is left out."""
        return dict(self._read("select file, count(*) from passages group by file"))

    def ids(self, patterns: Sequence[str]) -> frozenset[str]:
        """The ids of the passages of those files that one of the patterns names; see `is_named`."""
        files = dict.fromkeys(record.same or path for path, record in self.files().items() if is_named(path, patterns))
        found: set[str] = set()
        for part in batches(files, _IDS_AT_ONCE):
            rows = self._read(f"select id from passages where file in ({', '.join('?' * len(part))})", *part)
            found.update(id for (id,) in rows)
        return frozenset(found)

    def _passages(self, file: str) -> list[tuple[Any, ...]]:
        return self._read("select * from passages where file = ? order by first, id", file)

    def digests(self, file: str) -> dict[str, str]:
        """The ids of the passages of a file with their digests, in the order of their places."""
        return {row[0]: row[1] for row in self._passages(file)}

    def find(self, ids: Iterable[str]) -> dict[str, Source]:
        """The places of the passages with these ids, as far as they are recorded."""
        found: dict[str, Source] = {}
        for part in batches(dict.fromkeys(ids), _IDS_AT_ONCE):
            rows = self._read(f"select * from passages where id in ({', '.join('?' * len(part))})", *part)
            found.update((id, Source(*place)) for id, _, *place in rows)
        files = {source.file for source in found.values()}
        copies = {file: self._read("select path from files where same = ? order by path", file) for file in files}
        return {
            id: replace(source, copies=tuple(path for (path,) in copies[source.file])) for id, source in found.items()
        }

    def write_file(self, file: str, record: FileRecord) -> None:
        """Record a file without its passages."""
        with self._writing() as database:
            database.execute("insert into files values (?, ?, ?, ?, ?)", (file, *astuple(record)))

    def write_passages(self, placed: Iterable[tuple[Passage, Source]]) -> None:
        """Record passages and their places."""
        self._write((passage.id, passage_digest(passage), *astuple(source)[:4]) for passage, source in placed)

    def copy_passages(self, file: str, other: Sources) -> None:
        """Copy the records of a file's passages from other sources."""
        self._write(other._passages(file))

    def _write(self, rows: Iterable[tuple[Any, ...]]) -> None:
        with self._writing() as database:
            database.executemany("insert or replace into passages values (?, ?, ?, ?, ?, ?)", rows)


def is_named(path: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern is a file's path in its folder, a folder above it, or one that it matches, such as `*.pdf`.

    >>> is_named("reports/2026/june.pdf", ["reports", "*.md"])
    True
    """
    names = {path, *(parent.as_posix() for parent in PurePosixPath(path).parents)} - {"."}
    patterns = [pattern.removeprefix("./") for pattern in patterns]
    return any(fnmatchcase(path, pattern) or pattern.rstrip("/") in names for pattern in patterns)


def passage_digest(passage: Passage) -> str:
    """A digest of title and text."""
    text = f"{passage.title}\0{passage.text}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:20]


def batches(items: Iterable[Item], size: int = 4096) -> Iterator[list[Item]]:
    """Yield lists of `size` items; the last one may be shorter."""
    rest = iter(items)
    while part := list(itertools.islice(rest, size)):
        yield part


def sources_of(retriever: Any) -> Sources | None:
    """The sources of an index's passages; None if it has none, or is not a folder on this machine."""
    path = getattr(retriever, "path", None)
    return Sources.of_index(path) if path is not None else None


def places_of(retriever: Any, ids: Iterable[str]) -> dict[str, Source]:
    """The places of passages of a local or remote index, as far as they are recorded."""
    recorded = sources_of(retriever)
    find = recorded.find if recorded is not None else getattr(retriever, "places", None)
    return find(ids) if find is not None else {}
