"""The tables of a page of a PDF file, whose cells are told by rules."""

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
_FEWEST_RULES, _MOST_CELLS = 5, 10_000  # of a table
_WORD = re.compile(r"[^\W\d_]")
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")


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
        left, right = min(part.left for part in self.parts), max(part.right for part in self.parts)
        top = max(part.y for part in self.parts)
        self.place = Part(" ".join(part.text for part in self.parts), left, right, top, self.size)

    def read(self, above: Table | None) -> list[str]:
        """The rows as lines; the first row names the columns, unless the table goes on from `above`."""
        grid, title = [[_text_of(cell) for cell in row] for row in self.rows], list[str]()
        while len(grid) > 2 and len({*grid[0]}) == 1:
            title.append(grid.pop(0)[0])  # one cell over the whole width
        heads, shifts = 1, [math.inf]
        if above is not None and len(above.columns) == len(self.columns):
            shifts = [abs(one - other) for one, other in zip(self.columns, above.columns, strict=True)]
        if above is not None and not title and max(shifts) < 2 * _NEAR:
            self.names = above.names
            heads = int(grid[0] == self.names)  # the names are repeated
        else:
            while heads < len(grid) - 1 and len({*grid[heads - 1]}) < len({*grid[heads]}) and "" not in grid[heads]:
                heads += 1  # names above several columns, with names of their own below
            self.names = joined(grid[:heads])
            if not any(map(_WORD.search, self.names)) or not all(map(_is_name, self.names, grid[heads])):
                self.names, heads = [], 0
        names = dict(enumerate(self.names))
        shown = [{n: text or ("" if names.get(n) else "–") for n, text in enumerate(row)} for row in grid[heads:]]
        return [*title, *(each for row in shown if (each := line(row, names)))]


def _is_name(text: str, below: str) -> bool:
    """Whether a cell of the first row names its column: numbers do not, but a year above other things does."""
    is_year = bool(_YEAR.search(text)) and not _YEAR.search(below)
    return is_year or _WORD.search(text) is not None or not re.search(r"\d", text)


def _text_of(cell: Sequence[Part]) -> str:
    in_order = sorted(cell, key=lambda part: (-round(part.y), part.left))
    return " ".join(part.text for part in in_order).replace(f"{HYPHEN} ", HYPHEN)


def find_tables(parts: Sequence[Part], upright: Sequence[Rule], level: Sequence[Rule]) -> Iterator[Table]:
    """The tables: each is where upright rules touch level ones, which may reach beyond them."""
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
