"""Reading records from files, one at a time, with every fault named by file, place and field.

`read_json_lines` and `read_json_array` decode as they go, so a release of any size is read without holding its text;
files that end in `.gz` are decompressed on the way. What they yield is a `Record`: the JSON object together with its
place, whose accessors check types and raise `DataError`.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from knowgap.errors import DataError

__all__ = [
    "Record",
    "read_json_array",
    "read_json_lines",
    "read_json_object",
    "read_lines",
    "read_records",
    "read_table",
]

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Record:
    """A JSON object and where it stood.

    Args:
        data: the object.
        path: its file.
        line: line number from 1 (JSON Lines, TSV) or record number from 1 (JSON array).
    """

    data: dict[str, Any]
    path: Path
    line: int

    def error(self, problem: str, field: str | None = None) -> DataError:
        """The error to raise about this record."""
        return DataError(problem, path=self.path, line=self.line, field=field)

    def get(self, field: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        """The field's value, checked to be of the `kind`; `default` where the field is absent or null."""
        value = self.data.get(field)
        if value is None:
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            wanted = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
            raise self.error(f"must be {wanted}, is {type(value).__name__}: {_short(value)}", field)
        return value

    def need(self, field: str, kind: type | tuple[type, ...]) -> Any:
        """Like `get`, but the field must be there."""
        value = self.get(field, kind)
        if value is None:
            known = ", ".join(sorted(self.data)) or "none"
            raise self.error(f"is missing; the record's fields are {known}", field)
        return value

    def text(self, field: str) -> str:
        """A string that must be there and must show something."""
        value = self.need(field, str).strip()
        if not value:
            raise self.error("is blank", field)
        return value

    def texts(self, field: str) -> list[str]:
        """A list of strings, or one string as a list of one; empty where the field is absent."""
        value = self.get(field, (list, str), [])
        values = [value] if isinstance(value, str) else value
        for item in values:
            if not isinstance(item, str):
                raise self.error(f"must hold strings only, holds {_short(item)}", field)
        return values

    def identifier(self, field: str) -> str:
        """A string or a whole number that must be there, as a string."""
        value = str(self.need(field, (str, int)))
        if not value.strip() or isinstance(self.data[field], bool):
            raise self.error(f"must be a string or a whole number, is {_short(self.data[field])}", field)
        return value


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _open(path: Path) -> BufferedReader | gzip.GzipFile:
    if path.is_dir():
        raise DataError("is a folder; a file is needed here", path=path)
    try:
        return gzip.open(path) if path.suffix == ".gz" else path.open("rb")
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=path) from error


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Line numbers from 1 and lines without their ends; `DataError` at the first byte that is not UTF-8."""
    number = 0
    try:
        with _open(path) as file:
            for number, raw in enumerate(file, start=1):
                try:
                    line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise _not_utf8(path, number, raw[error.start], f"column {error.start + 1}") from error
                yield number, line.rstrip("\r\n")
    except (EOFError, gzip.BadGzipFile) as error:
        raise DataError(f"is damaged or cut short: {error}", path=path, line=number + 1) from error


def _not_utf8(path: Path, line: int, byte: int, where: str) -> DataError:
    return DataError(f"is not UTF-8: byte 0x{byte:02x} at {where}; convert the file to UTF-8", path=path, line=line)


def read_json_lines(path: Path) -> Iterator[Record]:
    """The objects of a JSON Lines file; blank lines are passed over.

    Raises:
        DataError: a line is not a JSON object, not UTF-8, or the file holds no record at all.
    """
    empty = True
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"is not JSON: {error.msg} at column {error.colno}", path=path, line=number) from error
        if not isinstance(data, dict):
            raise DataError(f"must be a JSON object, is {_short(data)}", path=path, line=number)
        empty = False
        yield Record(data, path, number)
    if empty:
        raise DataError("holds no records", path=path)


def read_json_array(path: Path, key: str | None = None) -> Iterator[Record]:
    """The objects of one JSON array, decoded one after another.

    Args:
        path: the file.
        key: where the file holds an object, the key of the array in it (`{"Data": [...]}`).

    Raises:
        DataError: the text is not such an array, ends early, is not UTF-8, or the array is empty.
    """
    decoder, number, text, position, done = json.JSONDecoder(), 0, "", 0, False
    opening = re.compile(r"\s*\[" if key is None else rf"\s*\{{.*?{json.dumps(key)}\s*:\s*\[", re.DOTALL)
    started, chunks = False, _decoded(path)
    while True:
        if not started:
            if found := opening.match(text):
                started, position = True, found.end()
                continue
        else:
            while position < len(text) and text[position] in " \t\r\n,":
                position += 1
            if text.startswith("]", position):
                break
            if position < len(text):
                try:
                    data, end = decoder.raw_decode(text, position)
                except json.JSONDecodeError as error:
                    # Whatever fails at the end of what was read may be whole after the next piece; what fails before
                    # it is wrong, except for a string without an end, which is reported where it begins.
                    early = error.pos < len(text) - 16 and not error.msg.startswith("Unterminated")
                    if done or early:
                        hint = "" if early else "; the file ends there, cut short"
                        problem = f"is not JSON: {error.msg} in record {number + 1}{hint}"
                        raise DataError(problem, path=path, line=number + 1) from error
                else:
                    number += 1
                    if not isinstance(data, dict):
                        raise DataError(f"must be a JSON object, is {_short(data)}", path=path, line=number)
                    yield Record(data, path, number)
                    position = end
                    continue
        if done:
            if not started:
                inside = f' under the key "{key}"' if key else ""
                raise DataError(f"holds no JSON array{inside}", path=path)
            problem = f"ends after record {number} without closing the array: the file is cut short"
            raise DataError(problem, path=path, line=number + 1)
        chunk = next(chunks, None)
        done = chunk is None
        text, position = text[position:] + (chunk or ""), 0
    if number == 0:
        raise DataError("holds no records", path=path)


def _decoded(path: Path) -> Iterator[str]:
    pending, offset = b"", 0
    try:
        with _open(path) as file:
            while chunk := file.read(_CHUNK):
                raw, first = pending + chunk, offset == 0 and not pending
                try:
                    text, pending = raw.decode("utf-8"), b""
                except UnicodeDecodeError as error:
                    if error.end < len(raw) or error.reason != "unexpected end of data":
                        raise _not_utf8(path, 1, raw[error.start], f"offset {offset + error.start}") from error
                    text, pending = raw[: error.start].decode("utf-8"), raw[error.start :]
                offset += len(raw) - len(pending)
                yield text.removeprefix("\ufeff") if first else text
    except (EOFError, gzip.BadGzipFile) as error:
        raise DataError(f"is damaged or cut short: {error}", path=path) from error
    if pending:
        raise DataError(f"ends in the middle of a character at offset {offset}: the file is cut short", path=path)


def read_json_object(path: Path) -> dict[str, Any]:
    """The one JSON object that a file holds, read as a whole.

    Raises:
        DataError: the text is not UTF-8, not JSON, or not an object.
    """
    try:
        data = json.loads("".join(_decoded(path)))
    except json.JSONDecodeError as error:
        raise DataError(f"is not JSON: {error.msg} at column {error.colno}", path=path, line=error.lineno) from error
    if not isinstance(data, dict):
        raise DataError(f"must be one JSON object, is {_short(data)}", path=path)
    return data


def read_table(path: Path) -> Iterator[Record]:
    """The rows of a tab-separated file with a header, quoted in the CSV manner; values are strings.

    Raises:
        DataError: the file is empty or not UTF-8, or a row has more or fewer cells than the header.
    """
    header: list[str] | None = None
    number = 0
    lines = (line + "\n" for _, line in read_lines(path))
    rows = csv.reader(lines, delimiter="\t", strict=True)
    try:
        for row in rows:
            if header is None:
                header = row
            elif row:
                if len(row) != len(header):
                    raise DataError(f"has {len(row)} cells, not {len(header)}", path=path, line=rows.line_num)
                number += 1
                yield Record(dict(zip(header, row, strict=True)), path, rows.line_num)
    except csv.Error as error:
        raise DataError(f"is not a tab-separated row: {error}", path=path, line=rows.line_num) from error
    if number == 0:
        raise DataError("holds no records", path=path)


def read_records(path: Path) -> Iterator[Record]:
    """The objects of a JSON array or of JSON Lines, whichever the first visible character shows.

    Raises:
        DataError: see `read_json_array` and `read_json_lines`; also where the file is blank.
    """
    for _, line in read_lines(path):
        if line.strip():
            return read_json_array(path) if line.lstrip().startswith("[") else read_json_lines(path)
    raise DataError("is empty", path=path)
