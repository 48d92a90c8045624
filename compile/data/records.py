"""Read records from files one at a time, and name every fault by file, line or record, and field.

`read_records` reads JSON Lines, JSON arrays, tables and Parquet, and never holds the whole file in memory. It yields a
`Record`: a JSON object and its place.

All functions raise `DataError`: for a file that cannot be read, is empty, cut short, not UTF-8 or not of the expected
form, at the first line or record where it shows.
"""

from __future__ import annotations

import codecs
import csv
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import ijson
import ujson

from knowgap.errors import DataError, MissingDependency, shorten

_LONGEST_CELL = 64_000_000  # characters; Python's default is 131,072


@dataclass(frozen=True, slots=True)
class Record:
    """A JSON object, its file, and its line (JSON Lines, TSV) or number (JSON array) there, from 1."""

    data: dict[str, Any]
    path: Path
    line: int

    def error(self, problem: str, field: str | None = None) -> DataError:
        """Make an error that names this record's place."""
        return DataError(problem, path=self.path, line=self.line, field=field)

    def lacks(self, field: str) -> DataError:
        """Make an error that a field is missing."""
        return self.error(f"is missing or wrong; the record has {', '.join(sorted(self.data)) or 'nothing'}", field)


@contextmanager
def _open(path: Path) -> Iterator[BufferedReader]:
    """Open a file's bytes, without a byte order mark; name the file in errors of reading it."""
    try:
        with path.open("rb") as file:
            if file.peek(3).startswith(codecs.BOM_UTF8):
                file.read(3)
            yield file
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=path) from error


def _read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line numbers from 1 and lines with their ends."""
    with _open(path) as file:
        for number, raw in enumerate(file, start=1):
            try:
                yield number, raw.decode()
            except UnicodeDecodeError as error:
                place = f"byte 0x{raw[error.start]:02x} at column {error.start + 1}"
                raise DataError(f"is not UTF-8: {place}; convert the file to UTF-8", path=path, line=number) from error


def read_records(path: Path, key: str | None = None) -> Iterator[Record]:
    """Yield the records of a file, decoded one after another.

    A file is a table with a header if its name ends in `.tsv` or `.csv` (with commas or semicolons), and has a record
    for each row if it ends in `.parquet`. Others are a JSON array or JSON Lines, as the first visible character shows.
    If a file holds an object, `key` names the array in it (`{"Data": [...]}`).
    """
    if path.suffix == ".parquet":
        found = _read_parquet(path)
    elif path.suffix.lower() in (".tsv", ".csv"):
        found = _read_table(path)
    elif key is not None or _starts_array(path):
        found = _read_array(path, f"{key}.item" if key else "item")
    else:
        found = _read_lines_of_json(path)
    first = next(found, None)
    if first is None:
        raise DataError(f'holds no records under the key "{key}"' if key else "holds no records", path=path)
    for line, data in itertools.chain([first], found):
        if not isinstance(data, dict):
            raise DataError(f"must be a JSON object, but is {shorten(repr(data), 60)}", path=path, line=line)
        yield Record(data, path, line)


def _read_parquet(path: Path) -> Iterator[tuple[int, Any]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingDependency("pyarrow is not installed; `pip install 'knowgap[arrow]'`") from error
    with _open(path) as file:
        try:
            batches: Any = pyarrow.parquet.ParquetFile(file).iter_batches()
            yield from enumerate((row for batch in batches for row in batch.to_pylist()), start=1)
        except pyarrow.ArrowException as error:
            raise DataError(f"is damaged, or not a Parquet file: {error}", path=path) from error


def _read_lines_of_json(path: Path) -> Iterator[tuple[int, Any]]:
    for number, line in _read_lines(path):
        if line.strip():
            try:
                yield number, ujson.loads(line)
            except ujson.JSONDecodeError as error:
                problem = f"is not JSON Lines, with one record per line: {error}"
                raise DataError(problem, path=path, line=number) from error


def _read_array(path: Path, place: str) -> Iterator[tuple[int, Any]]:
    number = 0
    with _open(path) as file:
        try:
            for number, data in enumerate(ijson.items(file, place, use_float=True), start=1):
                yield number, data
        except ijson.JSONError as error:
            reason = str(error).splitlines()[0].strip()
            raise DataError(f"is not JSON, or cut short: {reason}", path=path, line=number + 1) from error


def _starts_array(path: Path) -> bool:
    """Whether the first visible character of a file opens a JSON array."""
    with _open(path) as file:
        return file.peek(1 << 12).lstrip().startswith(b"[")


def _read_table(path: Path) -> Iterator[tuple[int, Any]]:
    """The rows of a table, which are quoted as in CSV; values are strings, and names in lower case."""
    lines = (line for _, line in _read_lines(path))
    header = next(lines, "")
    mark = "\t" if path.suffix.lower() == ".tsv" else max(",;", key=header.count)
    csv.field_size_limit(_LONGEST_CELL)
    rows = csv.DictReader(itertools.chain([header], lines), delimiter=mark, strict=True)
    try:
        rows.fieldnames = names = [name.strip().lower() for name in rows.fieldnames or ()]
        for row in rows:
            if None in row or None in row.values():
                problem = f"has {'more' if None in row else 'fewer'} cells than the header, which has {len(names)}"
                raise DataError(problem, path=path, line=rows.reader.line_num)
            yield rows.reader.line_num, row
    except csv.Error as error:
        raise DataError(f"cannot be read as a row of a table: {error}", path=path, line=rows.reader.line_num) from error
