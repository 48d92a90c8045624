"""The text of Excel and CSV files: each row with the names of its columns."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice
from operator import itemgetter
from statistics import median
from typing import Any

from knowgap.retrieval.documents.text import Heading, Text, Unreadable, line, without_private

_LONGEST_CELL = 64_000_000
"""The most characters of a cell; an unclosed quotation mark turns the rest of a file into one cell."""
_UNSAVED = re.compile(  # a formula without its value, which is not an empty text
    rb'<c\b(?![^>]*t="str")[^>]*>\s*<f\b(?:[^>]*/>|[^>]*>[^<]*</f>)\s*(?:<v\s*/>|<v>\s*</v>)?\s*</c>'
)


def read_sheets(content: bytes) -> Text:
    """Read every sheet under its name as a heading; a row becomes a line such as `town: Tarn; founded: 1931-05-02`.

    A merged cell has its value in each row and column that it covers. The first row that has more than half as many
    cells as most rows names the columns if there is a text in it, or if its corner is empty. The rows above it are read
    without names. Below merged names, a row of texts above numbers belongs to the names. Below an empty row, such a row
    names the columns of another table.
    """
    import openpyxl
    from openpyxl.worksheet._reader import WorksheetReader
    from openpyxl.worksheet.worksheet import Worksheet

    book: Any = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    tables, unsaved = [], 0
    for sheet in book.worksheets:
        source, page = sheet._get_source().read(), Worksheet(book)
        # Its cells alone, since the drawings or comments that a sheet names may be missing from the file.
        cells = WorksheetReader(page, io.BytesIO(source), sheet._shared_strings, True, False)
        cells.bind_cells()
        cells.bind_merged_cells()
        tables.append((" ".join(sheet.title.split()), [*_lines([*_rows(page)])]))
        unsaved += len(_UNSAVED.findall(source))
    return replace(_text(tables), note=f"formulas whose values were not saved: {unsaved}" if unsaved else "")


def read_table(text: str) -> Text:
    """Read a CSV file as the rows of a sheet are read.

    The separator is the tab, semicolon, bar or comma that gives the most of the first 20 rows the same number of cells.
    """
    csv.field_size_limit(_LONGEST_CELL)
    try:
        separator = max("\t;|,", key=lambda each: _regularity(text, each))
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


def _value(cell: Any) -> Any:
    is_share = isinstance(cell.value, (int, float)) and cell.number_format.endswith("%")
    return f"{100 * cell.value:.12g}%" if is_share else cell.value


def _rows(sheet: Any) -> Iterator[tuple[int, dict[int, Any]]]:
    """The number of each row with its cells; the value of a merged cell is in all its places."""
    merged = {place: _value(area.start_cell) for area in sheet.merged_cells.ranges for place in area.cells}
    # The public iterators also visit every place up to the last formatted cell, of which there may be millions.
    for number, places in groupby(sorted(sheet._cells), key=itemgetter(0)):
        row = _filled({at[1] - 1: merged.get(at, _value(sheet._cells[at])) for at in places})
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
    first = next((n for n, (_, row) in enumerate(rows) if 2 * len(row) > usual), 0)
    names, heads = dict[int, str](), list[dict[int, Any]]()
    for n, (number, row) in enumerate(rows):
        below = [each for _, each in rows[n + 1 : n + 3]]
        is_apart = n > first and number > rows[n - 1][0] + 1
        if below and (_may_name(row, below[0]) if n == first else is_apart and _are_names([row], below[0])):
            is_merged = any(row.get(column + 1) == value for column, value in row.items())
            heads = [row, below[0]] if is_merged and below[1:] and _are_names([row, below[0]], below[1]) else [row]
            columns = sorted({column for head in heads for column in head})
            names = {at: " ".join(dict.fromkeys(_shown(head[at]) for head in heads if at in head)) for at in columns}
        if not any(row is head for head in heads):
            yield number, line({column: _shown(value) for column, value in row.items()}, names)


def _may_name(row: Mapping[int, Any], below: Mapping[int, Any]) -> bool:
    """Whether there is a text in a row, or nothing above the text that the next one begins with."""
    corner = min(below)
    return any(isinstance(value, str) for value in row.values()) or (
        corner < min(row) and isinstance(below[corner], str)
    )


def _are_names(heads: Sequence[Mapping[int, Any]], below: Mapping[int, Any]) -> bool:
    """Whether the last of some rows has only texts, and other values are below it, each in a column of the rows."""
    is_text = len(heads[-1]) > 1 and all(isinstance(value, str) for value in heads[-1].values())
    is_other = not all(isinstance(value, str) for value in below.values())
    return is_text and is_other and all(any(column in head for head in heads) for column in below)


def _shown(value: Any) -> str:
    """A value as text in one line; dates as in ISO 8601."""
    return f"{value:.15g}" if isinstance(value, float) else " ".join(str(value).split()).removesuffix(" 00:00:00")
