"""The tables of a page of a PDF file: within rules, or in rows below the names of their columns."""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from knowgap.retrieval.documents.pdf_parts import HYPHEN, Part, Rule
from knowgap.retrieval.documents.text import joined, line

_NEAR = 3.0  # points between rules that are the same
_FEWEST_RULES, _MOST_CELLS = 5, 10_000  # of a table with rules
_FEWEST_ROWS = 3  # below the names of a table without rules
_PROSE = 20  # characters of a line of a column on average; cells of a table have fewer
_WORD = re.compile(r"[^\W\d_]")


def is_prose(parts: Sequence[Part]) -> bool:
    """Whether parts are long enough on average to be lines of a text rather than cells of a table."""
    return sum(len(part.text) for part in parts) >= _PROSE * len(parts)


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


def ruled_tables(parts: Sequence[Part], upright: Sequence[Rule], level: Sequence[Rule]) -> Iterator[Table]:
    """The tables with rules: each is where upright rules touch level ones, which may reach beyond them."""
    for beside in _touching(upright):
        low, high = beside[0].first, max(rule.last for rule in beside)
        for rows in _touching([rule for rule in level if low - _NEAR <= rule.at <= high + _NEAR]):
            left, right = rows[0].first, max(rule.last for rule in rows)
            inner = [rule for rule in beside if left - _NEAR < rule.at < right + _NEAR]
            xs = _by_place([Rule(left, low, high), *inner, Rule(right, low, high)])
            ys = _by_place([Rule(low, left, right), *rows, Rule(high, left, right)])
            is_drawn = len(_by_place(inner)) + len(_by_place(rows)) >= _FEWEST_RULES
            if is_drawn and len(xs) * len(ys) < _MOST_CELLS and (table := _of_rules(parts, xs, ys)):
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


def aligned_tables(parts: Sequence[Part]) -> Iterator[Table]:
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
        if named and len(below) >= _FEWEST_ROWS and full >= len(below) / 2 and not is_prose(cells):
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
