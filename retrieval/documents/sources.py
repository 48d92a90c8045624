"""The sources of the passages of an index, in the SQLite file `sources.db` in its folder.

It records the digest of every file that was read, the passages of each file, and their places. It is optional: an index
without it can be searched, but its passages have no places.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from knowgap.errors import IndexDamaged
from knowgap.retrieval.passage import Passage
from knowgap.storage.files import sync

NAME = "sources.db"
Item = TypeVar("Item")
_SCHEMA = """
create table settings (value text not null);
create table files (
    path text primary key, digest text, problem text not null, content text not null, same text not null,
    note text not null
);
create index copies on files (same);
create table passages (
    id text primary key, digest text not null, file text not null references files,
    unit text not null, first integer not null, last integer not null
) without rowid;
create index passages_of_file on passages (file);
"""
_LISTED = "(select value from json_each(?))"
_BEGUN = (
    "pragma synchronous = full",
    "update passages set digest = '' where (id, digest) not in (select id, digest from other.passages)",
    "insert or ignore into passages select id, '', file, unit, first, last from other.passages",
    "update files set digest = null where (path, digest) not in (select path, digest from other.files)",
    "insert or ignore into files select path, null, problem, content, same, note from other.files",
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


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The record of a file that was read or could not be read.

    Args:
        digest: the SHA-256 of the file; None if it could not be read or has to be tried again.
        problem: the reason why its text is not in the index; empty if it is.
        content: a digest of the titles and texts of its passages; empty if it could not be read.
        same: the file with the same titles and texts whose passages stand for its own; empty if they are its own.
        note: how it was read, and what of it was left out, such as pictures; empty if there is nothing to say.
    """

    digest: str | None
    problem: str = ""
    content: str = ""
    same: str = ""
    note: str = ""


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
        sources = cls(path)
        with sources._open() as database:
            database.executescript(_SCHEMA)
            database.execute("insert into settings values (?)", (json.dumps(settings),))
        return sources

    def move_to(self, folder: Path) -> None:
        """Put the file into the folder of an index."""
        sync(self.path)
        os.replace(self.path, folder / NAME)

    @contextmanager
    def _open(self, other: Sources | None = None) -> Iterator[sqlite3.Connection]:
        """Open the file, with another one attached as `other`; `move_to` synchronizes what is changed.

        Raises:
            IndexDamaged: it cannot be read or written.
        """
        try:
            with closing(sqlite3.connect(self.path)) as database:
                database.execute("pragma synchronous = off")
                if other is not None:
                    database.execute("attach ? as other", (str(other.path),))
                with database:
                    yield database
        except sqlite3.Error as error:
            raise IndexDamaged(f"{self.path}: the sources of passages cannot be read or written ({error})") from error

    def write(self, file: str, record: FileRecord, placed: Iterable[tuple[Passage, Source]] = ()) -> None:
        """Record a file, and passages of it with their places in addition to those that it has."""
        rows = ((passage.id, passage_digest(passage), *astuple(source)[:4]) for passage, source in placed)
        with self._open() as database:
            database.execute("insert or replace into files values (?, ?, ?, ?, ?, ?)", (file, *astuple(record)))
            database.executemany("insert or replace into passages values (?, ?, ?, ?, ?, ?)", rows)

    def copy_passages(self, file: str, old: Sources) -> None:
        """Record the passages of a file that other sources have."""
        with self._open(old) as database:
            database.execute("insert into passages select * from other.passages where file = ?", (file,))

    def begin_change(self, after: Sources) -> None:
        """Record that the index is about to be changed, in case that is cut off; `after` describes the changed index.

        Until `after` takes the place of these sources, the files that differ count as changed, and the passages that
        are added, replaced or removed have no digest, since the index may have them or not.
        """
        with self._open(after) as database:
            for statement in _BEGUN:
                database.execute(statement)

    def stale(self, old: Sources) -> list[str]:
        """The ids of the passages that `old` has and these sources do not."""
        with self._open(old) as database:
            gone = database.execute("select id from other.passages where id not in (select id from passages)")
            return [id for (id,) in gone]

    def _read(self, query: str, *arguments: str | Sequence[str]) -> list[tuple[Any, ...]]:
        """The rows of a query; a list is what `_LISTED` stands for."""
        with self._open() as database:
            return database.execute(query, [a if isinstance(a, str) else json.dumps(a) for a in arguments]).fetchall()

    def settings(self) -> dict[str, Any]:
        """The settings of the index's build, by name."""
        return json.loads(self._read("select value from settings")[0][0])

    def files(self) -> dict[str, FileRecord]:
        """The files by path, in the order of their paths."""
        return {path: FileRecord(*record) for path, *record in self._read("select * from files order by path")}

    def counts(self) -> dict[str, int]:
        """How many passages each file has; a file without passages is left out."""
        return dict(self._read("select file, count(*) from passages group by file"))

    def digests(self, file: str) -> dict[str, str]:
        """The ids of the passages of a file with their digests."""
        return dict(self._read("select id, digest from passages where file = ?", file))

    def find(self, ids: Iterable[str]) -> dict[str, Source]:
        """The places of the passages with these ids, as far as they are recorded."""
        rows = self._read(f"select * from passages where id in {_LISTED}", [*ids])
        found, copies = {id: Source(*place) for id, _, *place in rows}, defaultdict[str, list[str]](list)
        files = [*{source.file for source in found.values()}]
        for file, copy in self._read(f"select same, path from files where same in {_LISTED} order by path", files):
            copies[file].append(copy)
        return {id: replace(source, copies=tuple(copies[source.file])) for id, source in found.items()}


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
    """The places of passages of an index, as far as they are recorded."""
    recorded = sources_of(retriever)
    return recorded.find(ids) if recorded is not None else {}
