"""The lines of a page of a PDF file: columns in their order, and the rows of tables with the names of their columns.

A line of text that PDFium returns may run through several columns or cells. It is cut at wide gaps; the parts are
sorted where the page has columns; and those within the rules of a table become its cells.
"""

from __future__ import annotations

import ctypes
import itertools
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType
from typing import Any, NamedTuple

from knowgap.retrieval.documents.text import joined, line

_HYPHEN = "\x02"  # PDFium's, for a hyphen at the end of a line and the line end
_APART = re.compile(r"(?<!\S)[^\W\d_](?: [^\W\d_]){4,}(?!\S)")
_NEAR = 3.0  # points between rules that are the same
_SHORTEST = 8.0  # points of a rule
_MOST_RULES, _MOST_DRAWN = 500, 20_000  # rules of a page, and pieces of them; a drawing has more
_GAP = 1.2  # of the size of letters, between two columns or cells
_MOST_PARTS = 1500  # of a page; more are no columns of text
_FEWEST = 3  # rows below the names of a table without rules
_PROSE = 20  # characters of a line of a column on average; cells of a table have fewer


@dataclass
class Line:
    """A line of a page, in letters of a size in points; the row of a table if `is_row`."""

    text: str
    size: float
    page: int
    is_row: bool = False


class _Part(NamedTuple):
    """A part of a line without wide gaps, in points from the left and the bottom of the page."""

    text: str
    left: float
    right: float
    y: float
    size: float


class _Rule(NamedTuple):
    at: float  # x of an upright rule, y of a level one
    first: float
    last: float


def lines_of(page: Any, number: int, above: _Table | None) -> tuple[list[Line], _Table | None]:
    """The lines of a page, and the table at its end if there is one; `above` is the one at the end of the page before.

    A table that begins a page with the columns of the one above goes on with its names.
    """
    words = page.get_textpage()
    parts = list(_parts(words))
    words.close()
    tables, prose = list[_Table](), parts
    for table in (*_ruled(page), *_aligned(parts)):
        outside = table.take(prose)
        if len(outside) < len(prose):
            prose = outside
            tables.append(table)
    placed = [(part.y, [Line(part.text, part.size, number)]) for part in _joined(_in_order(prose))]
    for table in tables:
        is_first = not any(part.y > table.top for part in prose)
        made = [Line(text, table.size, number, is_row=True) for text in table.lines(above if is_first else None)]
        at = next((n for n, (y, _) in enumerate(placed) if y < table.top), len(placed))
        placed.insert(at, (table.top, made))
    last = min(tables, key=lambda table: table.bottom, default=None)
    if last is not None and sum(part.y < last.bottom for part in prose) > 1:  # more than a page number is below
        last = None
    return [each for _, lines in placed for each in lines], last


def _parts(words: Any) -> Iterator[_Part]:
    """The text in PDFium's order, cut at line ends and at wide gaps."""
    from pypdfium2 import raw

    box = [ctypes.c_double() for _ in range(4)]
    text, left, right, y, size, letters = "", 0.0, 0.0, 0.0, 0.0, list[tuple[float, float]]()
    ended, torn, rest = False, False, False  # a line; a word at a hyphen; and whether its rest is being read
    for index in range(words.count_chars()):
        character = chr(raw.FPDFText_GetUnicode(words, index))
        ended |= (character in "\r\n" and not torn) or (character.isspace() and rest)
        if character.isspace() or character in ("\0", _HYPHEN):
            torn |= character == _HYPHEN
            text += " " if text and not text.endswith(" ") and not torn else ""
            continue
        raw.FPDFText_GetCharBox(words, index, *box)
        x, end, bottom = (each.value for each in box[:3])
        moved = abs(bottom - y) > 0.7 * size or x - right > _GAP * size or x < left - size
        if text.strip() and (ended or (moved and not torn)):
            yield _Part(_spelled(text, letters), left, right, y, size)
            text, torn = "", False
        rest = torn
        if not text.strip():
            text, left, right, y, size, letters = "", x, end, bottom, _size(words, index), []
        text, ended = text + character, False
        right = right if torn else max(right, end)
        letters.append((x, end))
    if text.strip():
        yield _Part(_spelled(text, letters), left, right, y, size)


def _size(words: Any, index: int) -> float:
    """The size in points of a character."""
    from pypdfium2 import raw

    matrix = raw.FS_MATRIX()
    raw.FPDFText_GetMatrix(words, index, ctypes.byref(matrix))
    return round(raw.FPDFText_GetFontSize(words, index) * (matrix.b**2 + matrix.d**2) ** 0.5 * 2) / 2 or 1.0


def _spelled(text: str, letters: Sequence[tuple[float, float]]) -> str:
    """The text of a part; letters that are set apart are joined, and words are told by wider gaps.

    `letters` are the left and right ends of the characters that are not spaces.
    """

    def join(found: re.Match[str]) -> str:
        pieces, first = found[0].split(), len("".join(text[: found.start()].split()))
        ends = itertools.pairwise(letters[first : first + len(pieces)])
        gaps = [after - before for (_, before), (after, _) in ends]
        words = (" " * (gap > 1.6 * median(gaps) + 0.5) + piece for gap, piece in zip(gaps, pieces[1:], strict=True))
        return pieces[0] + "".join(words)

    text = text.strip()
    return _APART.sub(join, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _joined(parts: Sequence[_Part]) -> list[_Part]:
    """Parts that follow each other on one line of the page become one."""
    found: list[_Part] = []
    for part in parts:
        before = found[-1] if found else None
        if before is not None and abs(before.y - part.y) < 0.5 * part.size and part.left >= before.right - 1:
            found[-1] = before._replace(text=f"{before.text} {part.text}", right=part.right)
        else:
            found.append(part)
    return found


def _in_order(parts: Sequence[_Part]) -> Sequence[_Part]:
    """The parts of a page, column after column where there are columns, otherwise in PDFium's order.

    Columns are on both sides of a strip that hardly any part crosses. What crosses it, such as a title, divides the
    page into bands, which are read from top to bottom.
    """
    gutter = _gutter(parts)
    if gutter is None:
        return parts
    ordered: list[_Part] = []
    sides: tuple[list[_Part], list[_Part]] = ([], [])
    for part in sorted(parts, key=lambda part: (-part.y, part.left)):
        if part.left < gutter < part.right:
            ordered += [*_in_order(sides[0]), *_in_order(sides[1]), part]
            sides = ([], [])
        else:
            sides[part.left >= gutter].append(part)
    return [*ordered, *_in_order(sides[0]), *_in_order(sides[1])]


def _gutter(parts: Sequence[_Part]) -> float | None:
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


def _is_prose(parts: Sequence[_Part]) -> bool:
    return sum(len(part.text) for part in parts) >= _PROSE * len(parts)


class _Table:
    """A table between the x of its columns and the y of its rows, ascending.

    Cells are (row, column), the first row at the top. `merged` has for a cell the first of those without rules between.
    """

    def __init__(
        self,
        columns: Sequence[float],
        rows: Sequence[float],
        merged: Mapping[tuple[int, int], tuple[int, int]] = MappingProxyType({}),
    ) -> None:
        self.columns, self.rows, self.size, self.names = columns, rows, 0.0, list[str]()
        self.top, self.bottom = rows[-1], rows[0]
        self._merged, self._cells = merged, dict[tuple[int, int], list[_Part]]()

    def take(self, parts: Sequence[_Part]) -> Sequence[_Part]:
        """Take the parts that are inside, and return the others, or all if they are not in two rows and columns."""
        outside, sizes = list[_Part](), list[float]()
        for part in parts:
            x, y = (part.left + part.right) / 2, part.y + part.size / 4
            cell = len(self.rows) - 1 - bisect_right(self.rows, y), bisect_right(self.columns, x) - 1
            if 0 <= cell[0] < len(self.rows) - 1 and 0 <= cell[1] < len(self.columns) - 1:
                self._cells.setdefault(self._merged.get(cell, cell), []).append(part)
                sizes.append(part.size)
            else:
                outside.append(part)
        self.size = median(sizes or [0.0])
        return outside if all(len({cell[side] for cell in self._cells}) > 1 for side in (0, 1)) else parts

    def has_columns(self, columns: Sequence[float]) -> bool:
        """Whether the columns of another table are at the same places."""
        pairs = zip(columns, self.columns, strict=False)
        return len(columns) == len(self.columns) and all(abs(one - other) < 2 * _NEAR for one, other in pairs)

    def lines(self, above: _Table | None) -> list[str]:
        """The rows as lines; the first row names the columns, unless the table goes on from the page before."""
        texts = {
            cell: " ".join(part.text for part in sorted(parts, key=lambda part: (-round(part.y), part.left)))
            for cell, parts in self._cells.items()
        }
        width, title = len(self.columns) - 1, list[str]()
        cells = [[(row, column) for column in range(width)] for row in range(len(self.rows) - 1)]
        owners = [[self._merged.get(cell, cell) for cell in row] for row in cells]
        grid = [[texts.get(owner, "") for owner in row] for row in owners]
        while len(grid) > 2 and len({*owners[len(title)]}) == 1:
            title.append(grid.pop(0)[0])  # one cell over the whole width
        if above is not None and not title and above.has_columns(self.columns):
            self.names = above.names
            heads = int(grid[0] == self.names)  # the names are repeated
        else:
            heads = 1
            while heads < len(grid) - 1 and len({*grid[heads - 1]}) < len({*grid[heads]}) and "" not in grid[heads]:
                heads += 1  # names above several columns, with names of their own below
            self.names = joined(grid[:heads])
        if not all(any(map(str.isalpha, name)) or not name for name in self.names):
            self.names, heads = [], 0
        names = dict(enumerate(self.names))
        shown = [{n: text or ("" if names.get(n) else "–") for n, text in enumerate(row)} for row in grid[heads:]]
        return [*title, *(each for row in shown if (each := line(row, names)))]


def _ruled(page: Any) -> list[_Table]:
    """The grids of rules of a page with at least two rows and two columns, from top to bottom.

    A grid is where upright rules stand beside or upon each other.
    """
    upright, level = map(_continued, _rules(page))
    if len(upright) + len(level) > _MOST_RULES:
        return []
    bands = list[list[_Rule]]()
    for rule in sorted(upright, key=lambda rule: rule.first):
        if bands and rule.first <= max(other.last for other in bands[-1]) + _NEAR:
            bands[-1].append(rule)
        else:
            bands.append([rule])
    tables = []
    for columns in bands:
        low, high = columns[0].first - _NEAR, max(rule.last for rule in columns) + _NEAR
        rows = [rule for rule in level if low <= rule.at <= high]
        xs, ys = _places(columns), _places(rows)
        if len(xs) > 2 and len(ys) > 2:
            tables.append(_Table(xs, ys, _merged(xs, ys, columns, rows)))
    return tables[::-1]


def _merged(
    columns: Sequence[float], rows: Sequence[float], upright: Sequence[_Rule], level: Sequence[_Rule]
) -> dict[tuple[int, int], tuple[int, int]]:
    """For each cell, the first of those that have no rule between."""
    owner: dict[tuple[int, int], tuple[int, int]] = {}
    for row, (high, low) in enumerate(itertools.pairwise(rows[::-1])):
        for column, (left, right) in enumerate(itertools.pairwise(columns)):
            owner[row, column] = (row, column)
            if column and not _crossed(upright, left, (low + high) / 2):
                owner[row, column] = owner[row, column - 1]
            elif row and not _crossed(level, high, (left + right) / 2):
                owner[row, column] = owner[row - 1, column]
    return owner


def _crossed(rules: Sequence[_Rule], at: float, place: float) -> bool:
    """Whether a rule at a position covers a place along it."""
    return any(abs(rule.at - at) < _NEAR and rule.first - _NEAR < place < rule.last + _NEAR for rule in rules)


def _aligned(parts: Sequence[_Part]) -> list[_Table]:
    """Tables without rules: below a row of three or more names, rows whose cells each stand below one of these."""
    rows = list[list[_Part]]()
    for part in sorted(parts, key=lambda part: (-part.y, part.left)):
        if rows and rows[-1][0].y - part.y <= 0.5 * part.size:
            rows[-1].append(part)
        else:
            rows.append([part])
    rows = [sorted(row, key=lambda part: part.left) for row in rows]
    tables, n = list[_Table](), 0
    while n < len(rows):
        columns, last = [(part.left, part.right) for part in rows[n]], n
        while len(columns) > 2 and last + 1 < len(rows):
            row, step = rows[last + 1], rows[last][0].y - rows[last + 1][0].y
            usual = rows[n][0].y - rows[n + 1][0].y
            wider = _widened(columns, row)
            if not wider or step > 2.5 * row[0].size or (len(row) == 1 and last > n and step > 1.3 * usual):
                break
            columns, last = wider, last + 1
        below = rows[n + 1 : last + 1]
        full = sum(len(row) >= len(columns) - 1 for row in below)
        named = all(re.search(r"[^\W\d_]", part.text) for part in rows[n])
        cells = [part for row in below for part in row]
        if named and len(below) >= _FEWEST and full >= len(below) / 2 and not _is_prose(cells):
            tables.append(_of_rows(rows[n : last + 1], columns))
        n = last + 1
    return tables


def _widened(columns: Sequence[tuple[float, float]], row: Sequence[_Part]) -> list[tuple[float, float]]:
    """Columns, (left, right), as wide as the cells of one more row; empty if a cell is not below one of them alone."""
    wider = list(columns)
    for part in row:
        hit = [n for n, (left, right) in enumerate(wider) if part.left < right and part.right > left]
        if len(hit) != 1:
            return []
        wider[hit[0]] = (min(part.left, wider[hit[0]][0]), max(part.right, wider[hit[0]][1]))
    return [] if any(right > left for (_, right), (left, _) in itertools.pairwise(wider)) else wider


def _of_rows(rows: Sequence[Sequence[_Part]], columns: Sequence[tuple[float, float]]) -> _Table:
    """The table of aligned rows.

    A line of one cell that is not the first of its row belongs to the row that is nearer.
    """
    ys = [row[0].y for row in rows]
    levels = [ys[-1] - rows[-1][0].size / 2]
    for n in range(len(rows) - 1, -1, -1):
        if len(rows[n]) > 1 or rows[n][0].left < columns[0][1]:
            top = n
            while top > 1 and len(rows[top - 1]) == 1 and ys[top - 2] - ys[top - 1] > ys[top - 1] - ys[top]:
                top -= 1  # the line of one cell above is nearer to this row
            levels.append(ys[top] + rows[top][0].size)
    edges = [columns[0][0] - 1, *((right + left) / 2 for (_, right), (left, _) in itertools.pairwise(columns))]
    return _Table([*edges, columns[-1][1] + 1], levels)


def _places(rules: Sequence[_Rule]) -> list[float]:
    """The positions of rules, ascending; those that are near each other are one."""
    found: list[float] = []
    for at in sorted(rule.at for rule in rules):
        if not found or at - found[-1] > _NEAR:
            found.append(at)
    return found


def _continued(rules: Sequence[_Rule]) -> list[_Rule]:
    """Rules of which those that go on where another one ends are one; some programs draw them cell by cell."""
    found: list[_Rule] = []
    for rule in sorted(rules, key=lambda rule: (round(rule.at), rule.first)):
        if found and round(found[-1].at) == round(rule.at) and rule.first <= found[-1].last + _NEAR:
            found[-1] = found[-1]._replace(last=max(found[-1].last, rule.last))
        else:
            found.append(rule)
    return found


def _rules(page: Any) -> tuple[list[_Rule], list[_Rule]]:
    """The upright and the level rules of a page, also those that are thin rectangles."""
    from pypdfium2 import raw

    upright, level, x, y = list[_Rule](), list[_Rule](), ctypes.c_float(), ctypes.c_float()
    for drawn in page.get_objects(filter=[raw.FPDF_PAGEOBJ_PATH], max_depth=1):
        matrix, points = drawn.get_matrix(), list[tuple[float, float]]()
        for index in range(min(raw.FPDFPath_CountSegments(drawn), _MOST_DRAWN)):
            segment = raw.FPDFPath_GetPathSegment(drawn, index)
            raw.FPDFPathSegment_GetPoint(segment, x, y)
            if raw.FPDFPathSegment_GetType(segment) == raw.FPDF_SEGMENT_MOVETO:
                points = []
            points.append(matrix.on_point(x.value, y.value))
            back = points[:1] if raw.FPDFPathSegment_GetClose(segment) else []
            for (left, low), (right, high) in itertools.pairwise([*points[-2:], *back]):
                if abs(left - right) < 1 and abs(low - high) > _SHORTEST:
                    upright.append(_Rule(left, min(low, high), max(low, high)))
                elif abs(low - high) < 1 and abs(left - right) > _SHORTEST:
                    level.append(_Rule(low, min(left, right), max(left, right)))
        if len(upright) + len(level) > _MOST_DRAWN:
            return [], []
    return upright, level
