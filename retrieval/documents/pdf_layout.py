"""The lines of a page of a PDF file: columns in their order, and the rows of tables with the names of their columns.

The parts of a page's lines (`pdf_parts`) become cells where they stand within the rules of a table, or in rows below
the names of columns. The others are read column after column, and joined to lines.
"""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from knowgap.retrieval.documents.pdf_parts import HYPHEN, Part, Rule, parts_of, rules_of
from knowgap.retrieval.documents.text import joined, line

_EDGE = 1  # lines above or below a table that goes on from page to page: a running head, or a page number
_NEAR = 3.0  # points between rules that are the same
_MOST_CELLS = 10_000  # of a table with rules
_MOST_PARTS = 1500  # of a page; more are no columns of text
_FEWEST = 3  # rows below the names of a table without rules
_PROSE = 20  # characters of a line of a column on average; cells of a table have fewer
_WORD = re.compile(r"[^\W\d_]")


@dataclass
class Line:
    """A line of a page, in letters of a size in points; the row of a table if `is_row`."""

    text: str
    size: float
    page: int
    is_row: bool = False


@dataclass
class Table:
    """A table: the left end of each column, and in each row the parts of each cell.

    The parts of a merged cell are in each of its places. `names` has the names of the columns once it was read.
    """

    columns: Sequence[float]
    rows: Sequence[Sequence[Sequence[Part]]]
    names: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parts = {part for row in self.rows for cell in row for part in cell}
        self.size = median(part.size for part in self.parts)
        self.top = max(part.y for part in self.parts)
        self.bottom = min(part.y for part in self.parts)
        left, right = min(part.left for part in self.parts), max(part.right for part in self.parts)
        self.place = Part(" ".join(part.text for part in self.parts), left, right, self.top, self.size)

    def read(self, above: Table | None) -> list[str]:
        """The rows as lines; the first row names the columns, unless the table goes on from `above`."""
        grid, title = [[_text_of(cell) for cell in row] for row in self.rows], list[str]()
        while len(grid) > 2 and len({*grid[0]}) == 1:
            title.append(grid.pop(0)[0])  # one cell over the whole width
        heads = 1
        if above is not None and not title and self._continues(above):
            self.names = above.names
            heads = int(grid[0] == self.names)  # the names are repeated
        else:
            while heads < len(grid) - 1 and len({*grid[heads - 1]}) < len({*grid[heads]}) and "" not in grid[heads]:
                heads += 1  # names above several columns, with names of their own below
            self.names = joined(grid[:heads])
        if not all(_WORD.search(name) or not name for name in self.names):
            self.names, heads = [], 0
        names = dict(enumerate(self.names))
        shown = [{n: text or ("" if names.get(n) else "–") for n, text in enumerate(row)} for row in grid[heads:]]
        return [*title, *(each for row in shown if (each := line(row, names)))]

    def _continues(self, above: Table) -> bool:
        """Whether the columns are at the same places."""
        pairs = zip(self.columns, above.columns, strict=False)
        return len(self.columns) == len(above.columns) and all(abs(one - other) < 2 * _NEAR for one, other in pairs)


def _text_of(cell: Sequence[Part]) -> str:
    in_order = sorted(cell, key=lambda part: (-round(part.y), part.left))
    return " ".join(part.text for part in in_order).replace(f"{HYPHEN} ", "")


def lines_of(page: Any, number: int, above: Table | None) -> tuple[list[Line], Table | None]:
    """The lines of a page, and the table at its end if there is one; `above` is the one at the end of the page before.

    A table that begins a page with the columns of the one above goes on with its names.
    """
    parts = parts_of(page)
    ruled = [*_ruled(parts, *rules_of(page))]
    tables = [*ruled, *_aligned([part for part in parts if not any(part in table.parts for table in ruled)])]
    places = {part: table.place for table in tables for part in table.parts}
    prose = [part for part in parts if part not in places]
    found = dict[Part, list[Line]]()
    for table in tables:
        is_first = sum(part.y > table.top for part in prose) <= _EDGE
        texts = table.read(above if is_first else None)
        found[table.place] = [Line(text, table.size, number, is_row=True) for text in texts]
    lines = list[Line]()
    ordered = _in_order([*dict.fromkeys(places.get(part, part) for part in parts)])
    for is_table, each in itertools.groupby(ordered, key=lambda part: part in found):
        if is_table:
            lines += itertools.chain.from_iterable(found[part] for part in each)
        else:
            lines += [Line(part.text, part.size, number) for part in _lines(each)]
    last = min(tables, key=lambda table: table.bottom, default=None)
    is_last = last is not None and sum(part.y < last.bottom for part in prose) <= _EDGE
    return lines, last if is_last else None


def _lines(parts: Iterable[Part]) -> list[Part]:
    """Parts that follow each other on one line of the page become one; a divided word is whole in the first line."""
    found: list[Part] = []
    for part in parts:
        before, text = found[-1] if found else None, part.text
        if before is not None and abs(before.y - part.y) < 0.5 * part.size and part.left >= before.right - 1:
            found[-1] = before._replace(text=f"{before.text} {text}", right=part.right)
            continue
        if before is not None and before.text.endswith(HYPHEN):
            end, _, text = text.partition(" ")
            found[-1] = before._replace(text=before.text[:-1] + end)
        if text:
            found.append(part._replace(text=text))
    return [part._replace(text=part.text.replace(HYPHEN, "")) for part in found]


def _in_order(parts: Sequence[Part]) -> Sequence[Part]:
    """The parts of a page, column after column where there are columns, otherwise in PDFium's order.

    Columns are on both sides of a strip that hardly any part crosses. What crosses it, such as a title, divides the
    page into bands, which are read from top to bottom.
    """
    gutter = _gutter(parts)
    if gutter is None:
        return parts
    ordered: list[Part] = []
    sides: tuple[list[Part], list[Part]] = ([], [])
    for part in sorted(parts, key=lambda part: (-part.y, part.left)):
        if part.left < gutter < part.right:
            ordered += [*_in_order(sides[0]), *_in_order(sides[1]), part]
            sides = ([], [])
        else:
            sides[part.left >= gutter].append(part)
    return [*ordered, *_in_order(sides[0]), *_in_order(sides[1])]


def _gutter(parts: Sequence[Part]) -> float | None:
    """The x between two columns; None if there are none."""
    if not 6 <= len(parts) <= _MOST_PARTS:
        return None
    found = list[tuple[int, int, float]]()
    begun = Counter(round(part.left) for part in parts)
    for x in (left - 2.0 for left, count in begun.items() if count > 2):
        left = [part for part in parts if part.right <= x]
        right = [part for part in parts if part.left >= x]
        across, fewer = len(parts) - len(left) - len(right), min(len(left), len(right))
        if fewer < 3 or across > fewer / 2 or not (_is_prose(left) and _is_prose(right)):
            continue
        beside = sum(any(abs(one.y - other.y) < 3 * one.size for other in right) for one in left)
        if beside >= len(left) / 2:
            found.append((-across, fewer, x))
    return max(found)[2] if found else None


def _is_prose(parts: Sequence[Part]) -> bool:
    return sum(len(part.text) for part in parts) >= _PROSE * len(parts)


def _ruled(parts: Sequence[Part], upright: Sequence[Rule], level: Sequence[Rule]) -> Iterator[Table]:
    """The tables with rules: each is where upright rules touch level ones, which may reach beyond them."""
    for beside in _touching(upright):
        low, high = beside[0].first - _NEAR, max(rule.last for rule in beside) + _NEAR
        for rows in _touching([rule for rule in level if low <= rule.at <= high]):
            left, right = rows[0].first, max(rule.last for rule in rows)
            inner = [rule for rule in beside if left - _NEAR < rule.at < right + _NEAR]
            xs, ys = _by_place([Rule(left, low, high), *inner, Rule(right, low, high)]), _by_place(rows)
            if len(xs) > 2 and len(ys) > 2 and len(xs) * len(ys) < _MOST_CELLS and (table := _of_rules(parts, xs, ys)):
                yield table


def _touching(rules: Sequence[Rule]) -> list[list[Rule]]:
    """Groups of rules that are beside each other or go on where another one ends, each by where they begin."""
    groups = list[list[Rule]]()
    end = -math.inf
    for rule in sorted(rules, key=lambda rule: rule.first):
        if rule.first > end + _NEAR:
            groups.append([])
        groups[-1].append(rule)
        end = max(end, rule.last)
    return groups


def _by_place(rules: Sequence[Rule]) -> dict[float, list[Rule]]:
    """The rules at each place, ascending; some programs draw them cell by cell."""
    found: dict[float, list[Rule]] = {}
    for rule in sorted(rules):
        last = next(reversed(found), None)
        found.setdefault(rule.at if last is None or rule.at - last > _NEAR else last, []).append(rule)
    return found


def _of_rules(parts: Sequence[Part], xs: dict[float, list[Rule]], ys: dict[float, list[Rule]]) -> Table | None:
    """The table between rules; None if there is not something in two rows and two columns of it.

    Cells without a rule between them are one.
    """
    lefts, highs = [*xs], [*ys][::-1]
    cells = dict[tuple[int, int], list[Part]]()
    for row, (high, low) in enumerate(itertools.pairwise(highs)):
        for column, (left, right) in enumerate(itertools.pairwise(lefts)):
            if column and not _is_drawn(xs[left], (low + high) / 2):
                cells[row, column] = cells[row, column - 1]
            elif row and not _is_drawn(ys[high], (left + right) / 2):
                cells[row, column] = cells[row - 1, column]
            else:
                cells[row, column] = []
    for part in parts:
        x, y = (part.left + part.right) / 2, part.y + part.size / 4
        cells.get((bisect([-high for high in highs], -y) - 1, bisect(lefts, x) - 1), []).append(part)
    filled = {id(cell): place for place, cell in reversed(cells.items()) if cell}
    if any(len({place[side] for place in filled.values()}) < 2 for side in (0, 1)):
        return None
    rows = [[cells[row, column] for column in range(len(lefts) - 1)] for row in range(len(highs) - 1)]
    return Table(lefts[:-1], rows)


def _is_drawn(rules: Sequence[Rule], place: float) -> bool:
    """Whether one of the rules covers a place along them."""
    return any(rule.first - _NEAR < place < rule.last + _NEAR for rule in rules)


def _aligned(parts: Sequence[Part]) -> Iterator[Table]:
    """Tables without rules: below a row of three or more names, rows whose cells each stand below one of these."""
    rows = list[list[Part]]()
    for part in sorted(parts, key=lambda part: (-part.y, part.left)):
        if rows and rows[-1][0].y - part.y <= 0.5 * part.size:
            rows[-1].append(part)
        else:
            rows.append([part])
    rows = [sorted(row, key=lambda part: part.left) for row in rows]
    while rows:
        columns, count = _columns(rows)
        names, below = rows[0], rows[1:count]
        full = sum(len(row) >= len(columns) - 1 for row in below)
        cells = [part for row in below for part in row]
        named = all(_WORD.search(part.text) for part in names)
        if named and len(below) >= _FEWEST and full >= len(below) / 2 and not _is_prose(cells):
            yield _of_rows(rows[:count], columns)
        rows = rows[count:]


def _columns(rows: Sequence[Sequence[Part]]) -> tuple[list[tuple[float, float]], int]:
    """The columns, (left, right), of the table that begins with the names in the first row, and how many rows it has.

    Columns are as wide as their cells.
    """
    columns, count = [(part.left, part.right) for part in rows[0]], 1
    while len(columns) > 2 and count < len(rows):
        row, step = rows[count], rows[count - 1][0].y - rows[count][0].y
        places = [_place(part, columns) for part in row]
        is_far = step > 2.5 * row[0].size
        is_after = len(row) == 1 and count > 1 and step > 1.3 * (rows[0][0].y - rows[1][0].y)
        if None in places or is_far or is_after:
            break
        wider = list(columns)
        for place, part in zip(places, row, strict=True):
            left, right = wider[place or 0]
            wider[place or 0] = (min(part.left, left), max(part.right, right))
        if any(right > left for (_, right), (left, _) in itertools.pairwise(wider)):
            break
        columns, count = wider, count + 1
    return columns, count


def _place(part: Part, columns: Sequence[tuple[float, float]]) -> int | None:
    """The column that a part stands in; None if that is not one alone."""
    hit = [n for n, (left, right) in enumerate(columns) if part.left < right and part.right > left]
    return hit[0] if len(hit) == 1 else None


def _of_rows(lines: Sequence[Sequence[Part]], columns: Sequence[tuple[float, float]]) -> Table:
    """The table of aligned lines. Lines of one cell between two rows are divided between these at the widest gap."""
    full = [n for n, parts in enumerate(lines) if len(parts) > 1 or parts[0].left < columns[0][1]]
    starts = [0]
    for above, below in itertools.pairwise(full):
        gaps = {n: round(lines[n - 1][0].y - lines[n][0].y, 1) for n in range(above + 1, below + 1)}
        starts.append(max(gaps, key=lambda n: (gaps[n], n)))
    rows = list[list[list[Part]]]()
    for first, end in itertools.pairwise([*starts, len(lines)]):
        row: list[list[Part]] = [[] for _ in columns]
        for part in itertools.chain.from_iterable(lines[first:end]):
            row[_place(part, columns) or 0].append(part)
        rows.append(row)
    return Table([left for left, _ in columns], rows)
