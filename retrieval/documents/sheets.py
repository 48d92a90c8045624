"""The text of Excel and CSV files: each row with the names of its columns."""

from __future__ import annotations

import csv
import datetime
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from knowgap.retrieval.documents.text import Heading, Text, Unreadable, line

_LONGEST_CELL = 64_000_000
"""The most characters of a cell; an unclosed quotation mark turns the rest of a file into one cell."""
_FIRST = 20  # rows among which the header row is searched for
_YEARS = range(1800, 2101)  # a year may be the name of a column
_QUOTED = re.compile(r'"[^"]*"')


def read_sheets(content: bytes) -> Text:
    """Read every sheet under its name as a heading; a row becomes a line such as `town: Tarn; founded: 1931-05-02`.

    A merged cell has its value in each row and column that it covers. The header row, which names the columns, is the
    first row that consists of texts and years and has at least half as many cells as the widest of the first 20 rows.
    If columns of numbers or dates begin further down, it is the last such row above them that names all of these
    columns. Rows above the header row, and the rows of a sheet without one, are read without names.
    """
    import openpyxl

    book = openpyxl.load_workbook(io.BytesIO(content), data_only=True)
    return _text((" ".join(sheet.title.split()), [*_lines([*_rows(sheet)])]) for sheet in book.worksheets)


def read_table(text: str) -> Text:
    """Read each row of a CSV file as a line such as `town: Tarn; founded: 1931`; the first row names the columns.

    The separator is the comma, semicolon, tab or bar, whichever is most frequent in the first line, outside of
    quotation marks. A file with one row is read without names.
    """
    first = _QUOTED.sub("", text.lstrip("\r\n").partition("\n")[0])
    separator = max(",;\t|", key=first.count)
    csv.field_size_limit(_LONGEST_CELL)
    try:
        read = enumerate(csv.reader(io.StringIO(text), delimiter=separator), start=1)
        rows = [(number, dict(enumerate(row))) for number, row in read if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise Unreadable(f"is no CSV ({error})") from error
    names = {column: " ".join(name.split()) for column, name in rows[0][1].items()} if len(rows) > 1 else {}
    shown = rows[1:] or rows
    return _text([("", [(number, line(row, names)) for number, row in shown])])


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
            text.write(f"{words}\n")
        ranges.append((start, text.tell()))
    return Text(text.getvalue(), unit="row", pages=places, headings=headings, rows=ranges)


def _rows(sheet: Any) -> Iterator[tuple[int, dict[int, Any]]]:
    """The number of each row with its cells that have a value, by column from 1; a merged cell is in all its places."""
    merged = {place: area.start_cell for area in sheet.merged_cells.ranges for place in area.cells}
    for number, cells in enumerate(sheet.iter_rows(), start=1):
        row = {column: merged.get((number, column), cell) for column, cell in enumerate(cells, start=1)}
        found = {column: cell for column, cell in row.items() if cell.value is not None and str(cell.value).strip()}
        if len({id(cell) for cell in found.values()}) == 1:  # perhaps a title over the whole width
            found = dict([next(iter(found.items()))])
        if found:
            yield number, found


def _lines(rows: Sequence[tuple[int, dict[int, Any]]]) -> Iterator[tuple[int, str]]:
    """The number and the line of text of each row that is read."""
    at = _row_of_names([row for _, row in rows[:_FIRST]])
    names = {column: _shown(cell) for column, cell in rows[at][1].items()} if at >= 0 else {}
    for place, (number, row) in enumerate(rows):
        if place != at or place == len(rows) - 1:  # a header row that is the last one is read, too
            yield number, line({n: _shown(cell) for n, cell in row.items()}, names if place > at else {})


def _row_of_names(rows: list[dict[int, Any]]) -> int:
    """The index of the header row; -1 if there is none. See `read_sheets`."""
    width = max(map(len, rows), default=0) / 2
    named = [_are_names(row) for row in rows]
    candidates = [n for n, row in enumerate(rows) if named[n] and len(row) >= width]
    values = next((n for n, row in enumerate(rows) if not named[n] and len(row) >= width), 0)
    cells = rows[values].items() if values else ()
    numbers = {column for column, cell in cells if not isinstance(cell.value, (str, bool))}
    above = [n for n in candidates if n < values and numbers and numbers <= rows[n].keys()]
    return above[-1] if above else next(iter(candidates), -1)


def _are_names(row: dict[int, Any]) -> bool:
    values = [cell.value for cell in row.values()]
    years = [value for value in values if isinstance(value, int) and value in _YEARS]
    texts = [value for value in values if isinstance(value, str) and len(value) < 100]
    return bool(texts) and len(texts) + len(years) == len(values)


def _shown(cell: Any) -> str:
    """The value of a cell; dates as in ISO 8601, and percentages as such."""
    value = cell.value
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if value.time() == datetime.time() else value.isoformat(" ", "minutes")
    if isinstance(value, (int, float)) and str(cell.number_format).endswith("%"):
        return f"{100 * value:.6g}%"
    return f"{value:.15g}" if isinstance(value, float) else str(value)
