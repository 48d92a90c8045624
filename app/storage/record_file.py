"""The file from which long work continues: a header that says what it is about, then one record per line.

The file is JSON Lines. Its first line is ``{"about": {"program": "3f…", …}}``: whatever the records depend on, as JSON
values. A record is handed to the operating system before `RecordFile.append` returns, so a killed run only loses what
was in progress. The next run cuts off an unfinished line, and continues with the records that are missing. If several
records have the same id, the last one counts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Generic, TypeVar

import orjson
from typing_extensions import Self

from knowgap.errors import DataError, UsageError
from knowgap.storage.files import acquire_lock, naming

R = TypeVar("R", bound=Any)  # a pydantic model with an `id`


class RecordFile(Generic[R]):
    """A record file that is being written. Use it as a context manager; several threads may append.

    Args:
        path: the file; it is created, with its folder, if it does not exist.
        kind: the class of its records: a pydantic model with an `id`.
        about: what the records depend on, as JSON values by name.
        what: what a record is called in an error, such as "answer".

    Attributes:
        records: the records in the file, by id.

    Raises:
        UsageError: the file is about something else (the message names what differs), is no record file, or another
            process is writing to it.
        DataError: a line is damaged.
        OSError: the file cannot be read or written.
    """

    def __init__(self, path: str | Path, kind: type[R], about: Mapping[str, Any], what: str = "record") -> None:
        self.path, self._writing = Path(path), threading.Lock()
        wanted: dict[str, Any] = orjson.loads(orjson.dumps(dict(about)))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        taken = UsageError(f"another run is writing to {path}: wait for it, or name another file")
        with ExitStack() as stack:
            stack.enter_context(acquire_lock(self.path, taken=taken))
            self._file = stack.enter_context(self.path.open("a+b", buffering=0))
            self._file.seek(0)
            content = self._file.read()
            whole = content[: content.rfind(b"\n") + 1]
            if content and not whole and not b'{"about":'.startswith(content[:9]):
                raise UsageError(f"{path} is not a file of {what}s: name another file")
            header, self.records = _parse(self.path, whole, kind, what)
            if header is not None and header != wanted:
                differing = ", ".join(sorted(key for key in {*header, *wanted} if header.get(key) != wanted.get(key)))
                where = f"{path} holds {what}s of another run (it differs in: {differing})"
                raise UsageError(f"{where}: name another file, or remove this one")
            self._file.truncate(len(whole))
            if header is None:
                self._write(orjson.dumps({"about": wanted}))
            self._held = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        os.fsync(self._file.fileno())
        self._held.close()

    def append(self, record: R) -> None:
        """Write a record."""
        self._write(record.model_dump_json().encode())
        self.records[record.id] = record

    def _write(self, line: bytes) -> None:
        line += b"\n"
        with self._writing, naming(self.path):
            end = self._file.seek(0, os.SEEK_END)
            try:
                while line:
                    line = line[self._file.write(line) :]
            except OSError:
                self._file.truncate(end)  # a part of a line would spoil the next one
                raise


def read_records(path: str | Path, kind: type[R], what: str = "record") -> tuple[dict[str, Any], dict[str, R]]:
    """The header of a record file, and its records by id; an unfinished last line is ignored.

    Reading takes no lock, so a file that is being written can be read.

    Raises:
        DataError: a line is damaged.
        UsageError: it is no record file.
        OSError: the file cannot be read.
    """
    content = Path(path).read_bytes()
    header, records = _parse(Path(path), content[: content.rfind(b"\n") + 1], kind, what)
    return header or {}, records


def _parse(path: Path, content: bytes, kind: type[R], what: str) -> tuple[dict[str, Any] | None, dict[str, R]]:
    """The header, None if there is no whole one, and the records by id."""
    first, *lines = content.split(b"\n")[:-1] or [b""]
    if not first:
        return None, {}
    try:
        header = dict(orjson.loads(first)["about"])
    except (KeyError, TypeError, ValueError):
        raise UsageError(f"{path} is not a file of {what}s: name another file") from None
    records: dict[str, R] = {}
    for number, line in enumerate(lines, start=2):
        try:
            record = kind.model_validate_json(line)
        except ValueError:
            raise DataError(f"damaged {what}: remove the line, or the file", path=path, line=number) from None
        records[record.id] = record
    return header, records
