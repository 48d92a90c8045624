"""Where the passages of an index come from: `sources.db` in its folder, an SQLite file, read by passage id.

It has the digest of every file that was read, the passages of each, and their places. It is not part of the index
itself: an index without it is searched like any other, and without places.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from knowgap.errors import IndexDamaged
from knowgap.storage.files import sync

__all__ = ["FileRecord", "PassageRecord", "Source", "Sources", "sources_of"]

NAME = "sources.db"
_IDS_AT_ONCE = 500
_SCHEMA = """
create table settings (name text primary key, value text not null);
create table files (number integer primary key, path text unique not null, digest text, problem text not null);
create table passages (
    id text primary key, digest text not null, file integer not null references files,
    start integer not null, end integer not null, unit text not null, first integer not null, last integer not null
) without rowid;
create index passages_of_file on passages (file);
"""


@dataclass(frozen=True, slots=True)
class Source:
    """The place of a passage.

    Args:
        file: its file, relative to the folder that was indexed; control characters are escaped.
        start: where its text begins in the text of the file (of the record, for JSON Lines and TSV), in characters.
            Text and Markdown are taken as they are; other files, as the Markdown or text that is made of them.
        end: where it ends.
        unit: what is counted in `first` and `last`: "page", "slide" or "line"; empty for nothing.
        first: the first page, slide or line on which it stands, from 1; 0 for none.
        last: the last one.
    """

    file: str
    start: int
    end: int
    unit: str = ""
    first: int = 0
    last: int = 0

    def __str__(self) -> str:
        if not self.unit:
            return f"{self.file}, characters {self.start:,}–{self.end:,}"
        if self.first == self.last:
            return f"{self.file}, {self.unit} {self.first}"
        return f"{self.file}, {self.unit}s {self.first}–{self.last}"

    def to_dict(self) -> dict[str, Any]:
        """The place as a JSON-ready mapping."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PassageRecord:
    """What is recorded of a passage.

    Args:
        id: its id.
        digest: of its title and text.
        source: its place.
    """

    id: str
    digest: str
    source: Source


@contextmanager
def _telling_of_full_disks(path: Path) -> Iterator[None]:
    """Raise what SQLite says of a file that cannot be written as an `OSError` that names it."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise OSError(errno.ENOSPC if "full" in str(error) else errno.EIO, str(error), str(path)) from error


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What is recorded of a file.

    Args:
        digest: SHA-256 of its content; None if it could not be read.
        problem: why it has no passages, or only those of an earlier version; empty if it has all.
    """

    digest: str | None
    problem: str = ""


class Sources:
    """The sources of the passages of an index; read anew at each call, from any thread.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of_index(cls, folder: str | Path) -> Sources | None:
        """The sources in the folder of an index; None if it has none."""
        path = Path(folder) / NAME
        return cls(path) if path.is_file() else None

    @classmethod
    def create(cls, path: Path, settings: Mapping[str, Any]) -> Sources:
        """Make an empty file, in place of one that is there."""
        path.unlink(missing_ok=True)
        with _telling_of_full_disks(path), closing(sqlite3.connect(path)) as database, database:
            database.executescript(_SCHEMA)
            rows = [(name, json.dumps(value)) for name, value in settings.items()]
            database.executemany("insert into settings values (?, ?)", rows)
        return cls(path)

    def copy_to(self, path: Path) -> Sources:
        """Copy the file to a path, in place of one that is there."""
        shutil.copyfile(self.path, path)
        return Sources(path)

    def move_to(self, folder: Path) -> Sources:
        """Put the file into the folder of an index."""
        sync(self.path)
        os.replace(self.path, folder / NAME)
        return Sources(folder / NAME)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Change the file, which lies beside the index; it is brought to disk before it is moved there."""
        with _telling_of_full_disks(self.path), closing(sqlite3.connect(self.path)) as database:
            database.execute("pragma synchronous = off")
            with database:
                yield database

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            uri = f"{self.path.absolute().as_uri()}?mode=ro"
            with closing(sqlite3.connect(uri, uri=True)) as database:
                yield database
        except sqlite3.Error as error:
            raise IndexDamaged(
                f"{self.path}: where passages come from cannot be read ({error}); remove this file, or build again"
            ) from error

    def settings(self) -> dict[str, Any]:
        """What the index was made with, by name."""
        with self._reading() as database:
            return {name: json.loads(value) for name, value in database.execute("select name, value from settings")}

    def files(self) -> dict[str, FileRecord]:
        """The files by path, in the order of their paths."""
        with self._reading() as database:
            rows = database.execute("select path, digest, problem from files order by path")
            return {path: FileRecord(digest, problem) for path, digest, problem in rows}

    def records(self, file: str) -> list[PassageRecord]:
        """What is recorded of the passages of a file, in the order of their places."""
        query = (
            "select id, passages.digest, path, start, end, unit, first, last "
            "from passages join files on file = number where path = ? order by first, start, id"
        )
        with self._reading() as database:
            rows = database.execute(query, (file,))
            return [PassageRecord(identifier, digest, Source(*place)) for identifier, digest, *place in rows]

    def find(self, ids: Iterable[str]) -> dict[str, Source]:
        """The places of those of the ids that are recorded."""
        query = (
            "select id, path, start, end, unit, first, last from passages join files on file = number where id in ({})"
        )
        return {row[0]: Source(*row[1:]) for row in self._select(query, ids)}

    def _select(self, query: str, ids: Iterable[str]) -> list[tuple[Any, ...]]:
        wanted = [each for each in dict.fromkeys(ids) if each and _storable(each)]
        rows: list[tuple[Any, ...]] = []
        with self._reading() as database:
            for start in range(0, len(wanted), _IDS_AT_ONCE):
                part = wanted[start : start + _IDS_AT_ONCE]
                rows += database.execute(query.format(", ".join("?" * len(part))), part)
        return rows

    def write(
        self, file: str, record: FileRecord, passages: Iterable[PassageRecord] | None, *, continued: bool = False
    ) -> None:
        """Record a file.

        Args:
            file: its path.
            record: what is recorded of it.
            passages: its passages, in place of those that were recorded; None leaves these.
            continued: whether the passages follow those that were recorded.
        """
        with self._writing() as database:
            database.execute(
                "insert into files (path, digest, problem) values (?, ?, ?) "
                "on conflict (path) do update set digest = excluded.digest, problem = excluded.problem",
                (file, record.digest, record.problem),
            )
            [number] = database.execute("select number from files where path = ?", (file,)).fetchone()
            if passages is not None and not continued:
                database.execute("delete from passages where file = ?", (number,))
            rows = (
                (p.id, p.digest, number, s.start, s.end, s.unit, s.first, s.last)
                for p in passages or ()
                for s in [p.source]
                if _storable(p.id)
            )
            database.executemany("insert or replace into passages values (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def forget(self, files: Iterable[str]) -> None:
        """Remove what is recorded of files."""
        paths = [(file,) for file in files]
        with self._writing() as database:
            database.executemany("delete from passages where file = (select number from files where path = ?)", paths)
            database.executemany("delete from files where path = ?", paths)


def _storable(text: str) -> bool:
    """Whether SQLite takes a text; it takes no lone surrogates, which a JSON file can write."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def sources_of(retriever: Any) -> Sources | None:
    """The sources of an index's passages; None if it has none, or is not a folder of this machine."""
    path = getattr(retriever, "path", None)
    return Sources.of_index(path) if path is not None else None
