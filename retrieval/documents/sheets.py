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

    A merged cell has its value in each row and column that it covers. Among the first 20 rows, those are wide that have
    at least half as many cells as the widest. The header row, which names the columns, is the last wide row of texts
    and years above the first wide row of other values, or else the first wide row of texts. Rows above it, and the rows
    of a sheet without one, are read without names.
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
    """The number of each row with its values by column from 1; the value of a merged cell is in all its places."""
    merged = {place: area.start_cell.value for area in sheet.merged_cells.ranges for place in area.cells}
    for number, values in enumerate(sheet.iter_rows(values_only=True), start=1):
        row = {column: merged.get((number, column), value) for column, value in enumerate(values, start=1)}
        found = {column: value for column, value in row.items() if value is not None and str(value).strip()}
        if len({*found.values()}) == 1 and any((number, column) in merged for column in found):
            found = dict([next(iter(found.items()))])  # a title over the whole width
        if found:
            yield number, found


def _lines(rows: Sequence[tuple[int, dict[int, Any]]]) -> Iterator[tuple[int, str]]:
    """The number and the line of text of each row that is read."""
    at = _row_of_names([row for _, row in rows[:_FIRST]])
    names = {column: _shown(value) for column, value in rows[at][1].items()} if at >= 0 else {}
    for place, (number, row) in enumerate(rows):
        if place != at or place == len(rows) - 1:  # a header row that is the last one is read, too
            yield number, line({n: _shown(value) for n, value in row.items()}, names if place > at else {})


def _row_of_names(rows: list[dict[int, Any]]) -> int:
    """The index of the header row; -1 if there is none. See `read_sheets`."""
    wide = [n for n, row in enumerate(rows) if 2 * len(row) >= max(map(len, rows))]
    named = [n for n in wide if _are_names([*rows[n].values()])]
    first = next((n for n in wide if n not in named), 0)
    return max((n for n in named if n < first), default=next(iter(named), -1))


def _are_names(values: Sequence[Any]) -> bool:
    years = [value for value in values if isinstance(value, int) and value in _YEARS]
    texts = [value for value in values if isinstance(value, str) and len(value) < 100]
    return bool(texts) and len(texts) + len(years) == len(values)


def _shown(value: Any) -> str:
    """A value as text; dates as in ISO 8601."""
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if value.time() == datetime.time() else value.isoformat(" ", "minutes")
    return f"{value:.15g}" if isinstance(value, float) else str(value)
