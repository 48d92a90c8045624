"""The pieces of a page of a PDF file, as PDFium tells them: the parts of its lines, and the rules of its tables."""

from __future__ import annotations

import ctypes
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple

HYPHEN = "\x02"
"""PDFium's sign for the hyphen at the end of a line, at which a word was divided."""

_APART = re.compile(r"(?<!\S)[^\W\d_](?: [^\W\d_]){4,}(?!\S)")
_GAP = 1.2  # of the size of letters, between two columns or cells
_SHORTEST = 8.0  # points of a rule
_MOST_DRAWN = 20_000  # straight pieces of what is drawn on a page; a drawing has more


class Part(NamedTuple):
    """A part of a line without wide gaps, in points to the right and up on the page as it is read."""

    text: str
    left: float
    right: float
    y: float
    size: float


class Rule(NamedTuple):
    """A straight line: the x of an upright one or the y of a level one, and where it begins and ends."""

    at: float
    first: float
    last: float


class _Letter(NamedTuple):
    """A character that is not white space, its number in PDFium's text, and the white space before it.

    `quarters` says by how many quarters of a circle it is turned.
    """

    number: int
    before: str
    text: str
    quarters: float
    left: float
    right: float
    y: float
    top: float


def parts_of(page: Any) -> tuple[list[Part], int]:
    """The text of a page in PDFium's order, cut at line ends and at wide gaps.

    The second result is the number of quarters by which most of the text is turned. Places are as if it were not.
    """
    words = page.get_textpage()
    parts, letters, size = list[Part](), list[_Letter](), 0.0
    found = [*_letters(words)]
    turned = Counter(letter.quarters for letter in found).most_common(1)
    quarters = round(turned[0][0]) % 4 if turned else 0
    for letter in (_upright(letter, quarters) for letter in found):
        if letters and _is_apart(letter, letters[0], letters[-1], size):
            parts.append(_part(letters, size))
            letters = []
        if not letters:
            size = _size(words, letter.number)
        letters.append(letter)
    words.close()
    return [*parts, _part(letters, size)] if letters else parts, quarters


def _letters(words: Any) -> Iterator[_Letter]:
    from pypdfium2 import raw

    box, before = [ctypes.c_double() for _ in range(4)], ""
    for index in range(words.count_chars()):
        text = chr(raw.FPDFText_GetUnicode(words, index))
        if text.isspace() or text == "\0":
            before = "\n" if text in "\r\n" or before == "\n" else " "
            continue
        raw.FPDFText_GetCharBox(words, index, *box)
        quarters = round(raw.FPDFText_GetCharAngle(words, index) / (math.pi / 2), 1) % 4
        yield _Letter(index, before, text, quarters, *(each.value for each in box))
        before = "\n" if text == HYPHEN else ""


def _upright(letter: _Letter, quarters: int) -> _Letter:
    """A letter of a page whose text is turned by some quarters, as it is read; other text is still turned on it."""
    (left, low), (right, high) = _turn((letter.left, letter.y), quarters), _turn((letter.right, letter.top), quarters)
    (left, right), (low, high) = sorted((left, right)), sorted((low, high))
    return letter._replace(quarters=letter.quarters - quarters, left=left, right=right, y=low, top=high)


def _turn(point: tuple[float, float], quarters: int) -> tuple[float, float]:
    x, y = point
    return ((x, y), (-y, x), (-x, -y), (y, -x))[quarters]


def _is_apart(letter: _Letter, first: _Letter, last: _Letter, size: float) -> bool:
    """Whether a letter does not go on with the part of a line from the first to the last letter so far."""
    if letter.before == "\n" or letter.quarters or last.quarters:
        return letter.before == "\n" or letter.quarters != last.quarters
    moved = abs(letter.y - first.y) > 0.7 * size or letter.left < first.left - size
    return letter.text != HYPHEN and (moved or letter.left - last.right > _GAP * size)


def _size(words: Any, index: int) -> float:
    """The size in points of a character."""
    from pypdfium2 import raw

    matrix = raw.FS_MATRIX()
    raw.FPDFText_GetMatrix(words, index, ctypes.byref(matrix))
    return round(raw.FPDFText_GetFontSize(words, index) * (matrix.b**2 + matrix.d**2) ** 0.5 * 2) / 2 or 1.0


def _part(letters: Sequence[_Letter], size: float) -> Part:
    """The part of a line that letters make."""
    text = "".join(" " * bool(letter.before and n) + letter.text for n, letter in enumerate(letters))
    text = text.strip().encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return Part(_spelled(text, letters), letters[0].left, letters[-1].right, letters[0].y, size)


def _spelled(text: str, letters: Sequence[_Letter]) -> str:
    """The text of a part; letters that are set apart are joined, and words are told by wider gaps."""

    def join(found: re.Match[str]) -> str:
        first = sum(not character.isspace() for character in text[: found.start()])
        word = letters[first : first + len(found[0].split())]
        gaps = [after.left - before.right for before, after in itertools.pairwise(word)]
        wide = 1.6 * median(gaps) + 0.5
        return word[0].text + "".join(
            " " * (gap > wide) + letter.text for gap, letter in zip(gaps, word[1:], strict=True)
        )

    return _APART.sub(join, text)


def rules_of(page: Any, quarters: int) -> tuple[list[Rule], list[Rule]]:
    """The upright and the level rules of a page, also those that are thin rectangles; none if it is a drawing.

    `quarters` are those of `parts_of`.
    """
    from pypdfium2 import raw

    upright, level = list[Rule](), list[Rule]()
    paths = page.get_objects(filter=[raw.FPDF_PAGEOBJ_PATH], max_depth=1)
    pieces = itertools.chain.from_iterable(_pieces(path, quarters) for path in paths)
    for (left, low), (right, high) in itertools.islice(pieces, _MOST_DRAWN):
        if abs(left - right) < 1 and abs(low - high) > _SHORTEST:
            upright.append(Rule(left, min(low, high), max(low, high)))
        elif abs(low - high) < 1 and abs(left - right) > _SHORTEST:
            level.append(Rule(low, min(left, right), max(left, right)))
    return (upright, level) if next(pieces, None) is None else ([], [])


def _pieces(path: Any, quarters: int) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """The two ends of each piece of a path, (x, y) in points of the page."""
    from pypdfium2 import raw

    matrix, x, y = path.get_matrix(), ctypes.c_float(), ctypes.c_float()
    begin = last = (0.0, 0.0)
    for index in range(raw.FPDFPath_CountSegments(path)):
        segment = raw.FPDFPath_GetPathSegment(path, index)
        raw.FPDFPathSegment_GetPoint(segment, x, y)
        point = _turn(matrix.on_point(x.value, y.value), quarters)
        if raw.FPDFPathSegment_GetType(segment) == raw.FPDF_SEGMENT_MOVETO:
            begin = point
        else:
            yield last, point
        if raw.FPDFPathSegment_GetClose(segment):
            yield point, begin
        last = point
