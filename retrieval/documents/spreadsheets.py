"""The text of Excel and CSV files: each row with the names of its columns, and numbers and dates as displayed."""

from __future__ import annotations

import csv
import datetime
import io
import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from knowgap.retrieval.documents.text import Text, Unreadable, line_starts

LONGEST_CELL = 64_000_000
"""The most characters of a cell; an unclosed quotation mark turns the rest of a file into one cell."""
_FIRST = 20  # rows among which the header row is searched for
_YEARS = range(1800, 2101)  # a year may be the name of a column
_OF_THE_READER = {"mm-dd-yy", "m/d/yy h:mm"}  # formats that Excel displays in the order of the reader's locale
_QUOTED = re.compile(r'"[^"]*"')
_LITERAL = re.compile(r'\[[^\]]*\]|"[^"]*"|\\.|_.|\*.')
_DATE_CODES = re.compile(r"y+|m+|d+|h+|s+|am/pm|a/p|.", re.IGNORECASE | re.DOTALL)


def read_sheets(content: bytes) -> Text:
    """Read every sheet under its name as a heading; a row becomes a line such as `town: Tarn; founded: 1931-05-02`.

    The header row, which names the columns, is the first row that consists of texts and years and has at least half as
    many cells as the widest of the first 20 rows. If columns of numbers or dates begin further down, it is the last
    such row above them that names all of these columns. Rows above the header row, and the rows of a sheet without one,
    are read without names.
    """
    import openpyxl

    book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    text, places = io.StringIO(), []
    for sheet in book.worksheets:
        sheet.reset_dimensions()  # the dimensions that a file states may be wrong
        rows = ((number, row) for number, cells in enumerate(sheet.iter_rows(), start=1) if (row := _row(cells)))
        heading = f"## {' '.join(sheet.title.split())}\n"
        for number, line in _lines(rows):
            if heading:
                text.write(("\n" if places else "") + heading + "\n")
                heading = ""
            places.append((text.tell(), number))
            text.write(f"{line}\n")
    return Text(text.getvalue().rstrip("\n"), pages=places)


def read_table(text: str) -> Text:
    """Read each row of a CSV file as a line such as `town: Tarn; founded: 1931`; the first row names the columns.

    The separator is the comma, semicolon, tab or bar, whichever is most frequent in the first line, outside of
    quotation marks. A file with one row is read without names.
    """
    first = _QUOTED.sub("", text.lstrip("\r\n").partition("\n")[0])
    separator = max(",;\t|", key=first.count)
    csv.field_size_limit(LONGEST_CELL)
    try:
        rows = [
            (number, [" ".join(cell.split()) for cell in row])
            for number, row in enumerate(csv.reader(io.StringIO(text), delimiter=separator), start=1)
            if any(cell.strip() for cell in row)
        ]
    except csv.Error as error:
        raise Unreadable(f"is no CSV ({error})") from error
    names = rows[0][1] if len(rows) > 1 else []
    lines = []
    for _, row in rows[1:] or rows:
        named = zip(row, [*names, *[""] * len(row)], strict=False)
        lines.append("; ".join(f"{name}: {cell}" if name else cell for cell, name in named if cell))
    numbers = [number for number, _ in rows[1:] or rows]
    return Text("\n".join(lines), pages=list(zip(line_starts(lines), numbers, strict=False)))


def _row(cells: Any) -> dict[int, Any]:
    """The cells with a value, by column from 0."""
    return {column: cell for column, cell in enumerate(cells) if cell.value is not None and str(cell.value).strip()}


def _lines(rows: Iterator[tuple[int, dict[int, Any]]]) -> Iterator[tuple[int, str]]:
    """The number and the line of text of each row that is read."""
    first = list(islice(rows, _FIRST))
    at = _row_of_names([row for _, row in first])
    names = {column: _shown(cell) for column, cell in first[at][1].items()} if at >= 0 else {}
    for place, (number, row) in enumerate(chain(first, rows)):
        if place != at or place == len(first) - 1:  # a header row that is the last one is read, too
            yield number, _line(row, names if place > at else {})


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


def _line(row: dict[int, Any], names: dict[int, str]) -> str:
    cells = ((names.get(column), _shown(cell)) for column, cell in row.items())
    return "; ".join(f"{name}: {shown}" if name else shown for name, shown in cells)


def _shown(cell: Any) -> str:
    """The value of a cell as the sheet displays it."""
    value, code = cell.value, _LITERAL.sub(_spelled, str(cell.number_format or "")).split(";")[0]
    if isinstance(value, (datetime.date, datetime.time)):
        return _date(value, code)
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, (int, float)) and code.strip().endswith("%"):
        return f"{value:.{len(code.strip(' %').partition('.')[2])}%}"
    if isinstance(value, float):
        return f"{value:.15g}"
    return " ".join(str(value).split())


def _spelled(found: re.Match[str]) -> str:
    """The text of a literal part of a number format; empty if it has letters, which would be read as codes."""
    part = found[0]
    return part.strip('"\\') if part[0] in '"\\' and not re.search(r"[A-Za-z]", part) else ""


def _date(value: Any, code: str) -> str:
    """Format a date or time as its cell does, or as ISO 8601 if the format of the cell does not fit."""
    codes = _DATE_CODES.findall(code)
    starts = {each[0].lower() for each in codes}
    if not isinstance(value, (datetime.datetime, datetime.time)):
        value = datetime.datetime.combine(value, datetime.time())
    if isinstance(value, datetime.time):
        if "y" in starts or "h" not in starts:
            return value.isoformat()
        value = datetime.datetime.combine(datetime.date(1900, 1, 1), value)
    elif code in _OF_THE_READER or starts.isdisjoint("yd"):
        exact = "minutes" if code in _OF_THE_READER else "auto"
        return value.date().isoformat() if value.time() == datetime.time() else value.isoformat(" ", exact)
    noon = any(each.lower() in ("am/pm", "a/p") for each in codes)
    shown, before = [], ""
    for number, each in enumerate(codes):
        low = each.lower()
        following = next((c[0].lower() for c in codes[number + 1 :] if c[0].isalpha()), "")
        if low[0] == "m" and (before == "h" or following == "s"):
            shown.append(f"{value.minute:0{len(low)}d}")
        elif low[0] == "h":
            shown.append(f"{(value.hour % 12 or 12) if noon else value.hour:0{len(low)}d}")
        elif low[0] == "s":
            shown.append(f"{value.second:0{len(low)}d}")
        elif low in ("am/pm", "a/p"):
            shown.append("PM" if value.hour >= 12 else "AM")
        elif low[0] in "ymd":
            shown.append(_part(value, low))
        else:
            shown.append(each)
        before = low[0] if low[0].isalpha() else before
    return "".join(shown).strip()


def _part(value: Any, code: str) -> str:
    """Format a year, month or day by its code."""
    if code[0] == "y":
        return f"{value.year % 100:02d}" if len(code) < 3 else f"{value.year:04d}"
    number = value.month if code[0] == "m" else value.day
    if len(code) < 3:
        return f"{number:0{len(code)}d}"
    return value.strftime(("%b" if len(code) == 3 else "%B") if code[0] == "m" else ("%a" if len(code) == 3 else "%A"))
