"""The text of Excel and CSV files: each row with the names of its columns."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from statistics import median
from typing import Any

from knowgap.retrieval.documents.text import Heading, Text, Unreadable, line, without_private

_LONGEST_CELL = 64_000_000
"""The most characters of a cell; an unclosed quotation mark turns the rest of a file into one cell."""
_TOLD = re.compile(r"sep=(.)[ \t]*(?=\n)")  # as Excel is told the separator


def read_sheets(content: bytes) -> Text:
    """Read every sheet under its name as a heading; a row becomes a line such as `town: Tarn; founded: 1931-05-02`.

    A merged cell has its value in each row and column that it covers. The first row that has more than half as many
    cells as most rows names the columns if there is a text in it. The rows above it are read without names.
    """
    import openpyxl

    book = openpyxl.load_workbook(io.BytesIO(content), data_only=True)
    return _text((" ".join(sheet.title.split()), [*_lines([*_rows(sheet)])]) for sheet in book.worksheets)


def read_table(text: str) -> Text:
    """Read a CSV file as the rows of a sheet are read.

    The separator is the tab, semicolon, bar or comma that gives the most of the first 20 rows the same number of cells.
    """
    csv.field_size_limit(_LONGEST_CELL)
    told = _TOLD.match(text)
    text = text[told.end() :] if told else text
    try:
        separator = told[1] if told else max("\t;|,", key=lambda each: _regularity(text, each))
        rows = [_filled(dict(enumerate(row))) for row in _split(text, separator)]
    except csv.Error as error:
        raise Unreadable(f"is no CSV ({error})") from error
    return _text([("", [*_lines([(number, row) for number, row in enumerate(rows, start=1) if row])])])


def _split(text: str, separator: str) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=True)


def _regularity(text: str, separator: str) -> tuple[int, int]:
    """How many of the first rows have the most common number of cells, and this number; one cell does not count."""
    widths = Counter(len(row) for row in islice(_split(text, separator), 20) if len(row) > 1)
    return max(((count, width) for width, count in widths.items()), default=(0, 0))


def _text(tables: Iterable[tuple[str, Sequence[tuple[int, str]]]]) -> Text:
    """The text of tables, each with a name and with lines that have the numbers of their rows."""
    text, places, headings, ranges = io.StringIO(), [], [], []
    for name, lines in tables:
        if name and lines:
            headings.append(Heading(1, name, text.tell(), text.tell() + len(name) + 1))
            text.write(f"{name}\n")
        start = text.tell()
        for number, words in lines:
            places.append((text.tell(), number))
            text.write(f"{without_private(words)}\n")
        ranges.append((start, text.tell()))
    return Text(text.getvalue(), unit="row", pages=places, headings=headings, rows=ranges)


def _rows(sheet: Any) -> Iterator[tuple[int, dict[int, Any]]]:
    """The number of each row with its cells; the value of a merged cell is in all its places."""
    merged = {place: area.start_cell.value for area in sheet.merged_cells.ranges for place in area.cells}
    # The public iterators also visit every place up to the last formatted cell, of which there may be millions.
    for number, places in groupby(sorted(sheet._cells), key=itemgetter(0)):
        row = _filled({at[1] - 1: merged.get(at, sheet._cells[at].value) for at in places})
        if len({*row.values()}) == 1 and any((number, column + 1) in merged for column in row):
            row = dict([next(iter(row.items()))])  # a title over the whole width
        if row:
            yield number, row


def _filled(row: Mapping[int, Any]) -> dict[int, Any]:
    """The cells of a row that are not empty, by column from 0."""
    return {column: value for column, value in row.items() if value is not None and str(value).strip()}


def _lines(rows: Sequence[tuple[int, dict[int, Any]]]) -> Iterator[tuple[int, str]]:
    """The number and the line of text of each row that is read; see `read_sheets`."""
    usual = median([len(row) for _, row in rows] or [0])
    at = next((n for n, (_, row) in enumerate(rows) if 2 * len(row) > usual), 0)
    is_named = len(rows) > at + 1 and any(isinstance(value, str) for value in rows[at][1].values())
    names = {column: " ".join(_shown(value).split()) for column, value in rows[at][1].items()} if is_named else {}
    for place, (number, row) in enumerate(rows):
        if place != at or not is_named:
            yield number, line({n: _shown(value) for n, value in row.items()}, names if place > at else {})


def _shown(value: Any) -> str:
    """A value as text; dates as in ISO 8601."""
    return f"{value:.15g}" if isinstance(value, float) else str(value).removesuffix(" 00:00:00")
