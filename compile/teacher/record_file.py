"""Records in a JSON Lines file that a later run continues, one record a line."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import orjson
from filelock import Timeout
from typing_extensions import Self

from knowgap.compile.evaluation.runner import map_ordered
from knowgap.errors import DataError, UsageError
from knowgap.retrieval.index.build import Progress
from knowgap.retrieval.index.files import acquire_lock, release_lock

__all__ = ["RecordFile", "read_record_file"]


class _Record(Protocol):
    """What a line holds: a pydantic model with an id."""

    @property
    def id(self) -> str: ...

    def model_dump_json(self) -> str: ...

    @classmethod
    def model_validate_json(cls, json_data: bytes, /) -> Self: ...


R = TypeVar("R", bound=_Record)


class RecordFile(Generic[R]):
    """A file of records that is being written: a header that says what they were made with, then one record a line.

    What a killed run wrote is kept, and a line that it left unfinished is cut off. Use it as a context manager.

    Args:
        path: made, with its folder, if it is not there.
        kind: the class of its records: a pydantic model with an `id`.
        what: what a record is called in an error.
        made_with: what the records depend on, as JSON values; None for a file without a header.

    Attributes:
        records: those in the file, by id; of several with one id, the last.

    Raises:
        UsageError: the file is something else, was made with something else, or is being written to.
        DataError: a line is damaged.
    """

    def __init__(self, path: Path, kind: type[R], what: str, made_with: dict[str, Any] | None = None):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = acquire_lock(path, timeout=0)
        except Timeout:
            raise UsageError(f"another run is writing to {path}: wait for it, or name another folder") from None
        try:
            self._file = path.open("a+b", buffering=0)
            self._file.seek(0)
            lines = self._file.read().split(b"\n")
            self._file.truncate(sum(len(line) + 1 for line in lines[:-1]))
            self.records = self._read(lines[:-1], kind, what, made_with)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        if hasattr(self, "_file"):
            os.fsync(self._file.fileno())
            self._file.close()
        release_lock(self._lock)

    def _read(self, lines: Sequence[bytes], kind: type[R], what: str, made_with: dict[str, Any] | None) -> dict[str, R]:
        if made_with is None:
            return _parse(self.path, lines, kind, what)
        wanted: dict[str, Any] = orjson.loads(orjson.dumps(made_with))
        if not lines:
            self._file.write(orjson.dumps({"made_with": wanted}) + b"\n")
            return {}
        try:
            header = dict(orjson.loads(lines[0])["made_with"])
        except (KeyError, TypeError, ValueError):
            raise DataError(f"is no file of {what}s: name another one", path=self.path, line=1) from None
        if header != wanted:
            differing = sorted(key for key in {*header, *wanted} if header.get(key) != wanted.get(key))
            raise UsageError(
                f"{self.path} was made with another {', '.join(differing)}: name another folder, or remove the file"
            )
        return _parse(self.path, lines[1:], kind, what, first=2)

    def append(self, record: R) -> None:
        """Write a record; it is handed to the operating system before this returns."""
        self._file.write(record.model_dump_json().encode() + b"\n")
        self.records[record.id] = record

    def fill(
        self,
        ids: Sequence[str],
        make: Callable[[str], R | None],
        num_threads: int,
        progress: Progress | None = None,
        tell: Callable[[], str] = str,
    ) -> None:
        """Make the records that the file lacks, several at a time, and write each as soon as those before it are.

        Args:
            ids: of the records that there shall be.
            make: the record of an id; None if there is none this time, so that a later run makes it.
            num_threads: records made at once.
            progress: called after each with how many are there, how many there shall be, and what `tell` says.
            tell: words on how it goes.
        """
        missing = [id for id in ids if id not in self.records]
        made = map_ordered(make, missing, num_threads, ahead=8 * num_threads)
        for done, record in enumerate(made, start=len(ids) - len(missing) + 1):
            if record is not None:
                self.append(record)
            if progress is not None:
                progress(done, len(ids), tell())


def read_record_file(path: Path, kind: type[R], what: str) -> dict[str, R]:
    """The records in a file without a header, by id; a last line without an end does not count.

    Raises:
        DataError: a line is damaged.
    """
    return _parse(path, path.read_bytes().split(b"\n")[:-1] if path.exists() else [], kind, what)


def _parse(path: Path, lines: Sequence[bytes], kind: type[R], what: str, first: int = 1) -> dict[str, R]:
    records: dict[str, R] = {}
    for number, line in enumerate(lines, start=first):
        try:
            record = kind.model_validate_json(line)
        except ValueError:
            raise DataError(f"is no {what}: remove the line, or the file", path=path, line=number) from None
        records[record.id] = record
    return records
