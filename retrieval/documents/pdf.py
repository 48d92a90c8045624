"""The text of PDF files with their headings, without running heads and page numbers.

A page is read in steps: the parts of its lines (`pdf_parts`), those that are cells of its tables (`pdf_tables`), the
order in which the parts and tables are read, column after column, and the lines that they make.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from knowgap.retrieval.documents.pdf_parts import HYPHEN, Part, parts_of, rules_of
from knowgap.retrieval.documents.pdf_tables import Table, find_tables
from knowgap.retrieval.documents.text import Heading, Text, Unreadable, line_starts

_EDGE = 2  # lines at the top and at the bottom of a page among which running heads are looked for
_REPEATED = 3  # pages on which a line has to appear to be a running head
_LARGER = 1.12  # a line is a heading if it is larger than this many times the body size
_LONGEST_HEADING = 120  # characters
_LETTER = re.compile(r"[^\W\d_]")
_ONLY_A_NUMBER = re.compile(r"(?:[\W\d_]|page|of|seite|von)*", re.IGNORECASE)
_UNNUMBERED = 30  # pages that may be missing between the first page of a file and the page that is numbered 1
_WORD = re.compile(r"\w+(?:-\w+)*")
_LEADERS = re.compile(r"(?:\.\s?){5,}\s*\w*\s*$|^(?:\.\s?){5,}")
_STAMP = re.compile(r"arXiv:\d")  # in the margin of a first page, in letters larger than the title's
_BESIDE = 1  # lines above or below a table that goes on from page to page: a running head, or a page number
_PROSE = 20  # characters of a line of a column on average; cells of a table without rules have fewer
_MOST_PARTS = 1500  # of a page; more are no columns of text
_FILE_NAME = re.compile(r"\.\w{2,4}$|^Microsoft |^untitled$", re.IGNORECASE)


@dataclass
class _Line:
    """A line of a page, in letters of a size in points; the row of a table if `is_row`."""

    text: str
    size: float
    page: int
    is_row: bool = False


def read_pdf(content: bytes) -> Text:
    """Read the text of a PDF file.

    What was filled into forms is read, too. The headings are the lines in larger letters than the body. A line that
    appears at the top or bottom of three or more pages, apart from its page number, is a running head; only its first
    occurrence is kept. Page numbers and lines with leaders, of a table of contents, are left out. The title is that
    of the file's properties.

    Raises:
        Unreadable: it has no text.
        PdfiumError: the file is encrypted or damaged.
    """
    import pypdfium2

    document = pypdfium2.PdfDocument(content)
    document.init_forms()
    pages, table, pictures = list[list[_Line]](), None, 0
    for number in range(1, len(document) + 1):
        if document.formenv:
            with suppress(pypdfium2.PdfiumError):
                document[number - 1].flatten()
        page = document[number - 1]
        lines, table = _lines_of(page, number, table)
        pages.append([line for line in lines if line.text.strip()])
        pictures += not pages[-1] and next(page.get_objects(), None) is not None
        page.close()
    known = {word.lower() for lines in pages for line in lines for word in _WORD.findall(line.text)}
    for line in itertools.chain(*pages):
        line.text = _undivided(line.text, known)
    lines = _without_running_heads(pages)
    lines = [line for line in lines if not _LEADERS.search(line.text)] or lines
    without = "pages without text (pictures of pages need character recognition first)"
    if not lines:
        raise Unreadable(f"has {len(document)} {without}")
    title = document.get_metadata_dict().get("Title", "").strip()
    text = _assembled(lines, "" if _FILE_NAME.search(title) or " " not in title else title)
    return replace(text, note=f"{pictures} of {len(document)} {without} left out") if pictures else text


def _lines_of(page: Any, number: int, above: Table | None) -> tuple[list[_Line], Table | None]:
    """The lines of a page, and its last table if there is one; `above` is that of the page before.

    A table that begins a page with the columns of the one above goes on with its names.
    """
    parts, quarters = parts_of(page)
    tables = [*find_tables(parts, *rules_of(page, quarters))]
    places = {part: table.place for table in tables for part in table.parts}
    prose = [part for part in parts if part not in places]
    found = dict[Part, list[_Line]]()
    for table in tables:
        is_first = sum(part.y > table.place.y for part in prose) <= _BESIDE
        texts = table.read(above if is_first else None)
        found[table.place] = [_Line(text, table.size, number, is_row=True) for text in texts]
    lines = list[_Line]()
    ordered = _in_order([*dict.fromkeys(places.get(part, part) for part in parts)])
    for is_table, each in itertools.groupby(ordered, key=lambda part: part in found):
        if is_table:
            lines += itertools.chain.from_iterable(found[part] for part in each)
        else:
            lines += [_Line(part.text, part.size, number) for part in _lines(each)]
    return lines, min(tables, key=lambda table: table.place.y, default=None)


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
            found[-1] = before._replace(text=before.text + end)
        if text:
            found.append(part._replace(text=text))
    return found


def _undivided(text: str, known: set[str]) -> str:
    """A line whose divided words are whole, with a hyphen of their own if the file has or the word shows it."""
    whole, *ends = text.split(HYPHEN)
    for end in ends:
        before, after = re.sub(r".*[^\w-]", "", whole), re.sub(r"\W.*", "", end)
        is_own = f"{before}-{after}".lower() in known
        if not is_own and f"{before}{after}".lower() not in known:
            is_whole = after[:1].islower() or (before.isupper() and after.isupper())
            is_own = not is_whole or len(before) == 1 or "-" in before or "://" in whole.rpartition(" ")[2]
        whole += "-" * is_own + end
    return whole


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
        is_prose = all(sum(len(part.text) for part in side) >= _PROSE * len(side) for side in (left, right))
        if fewer < 3 or across > fewer / 2 or not is_prose:
            continue
        beside = sum(any(abs(one.y - other.y) < 3 * one.size for other in right) for one in left)
        if beside >= len(left) / 2:
            found.append((-across, fewer, x))
    return max(found)[2] if found else None


def _without_running_heads(pages: list[list[_Line]]) -> list[_Line]:
    largest = _LARGER * _body_size(itertools.chain(*pages))
    edges = [
        [line for line in (*lines[:_EDGE], *lines[_EDGE:][-_EDGE:]) if not line.is_row and line.size <= largest]
        for lines in pages
    ]
    last = len(pages) + _UNNUMBERED
    seen = Counter(key for lines in edges for key in {key for line in lines for key in _keys(line, last)})
    kept, told, may_be = list[_Line](), set[str](), {id(line) for line in itertools.chain(*edges)}
    for line in itertools.chain(*pages):
        repeated = {key for key in _keys(line, last) if seen[key] >= _REPEATED} if id(line) in may_be else set[str]()
        if not repeated or (not told & repeated and _LETTER.search(line.text)):
            kept.append(line)
        told |= repeated
    return kept


def _keys(line: _Line, last: int) -> set[str]:
    """Keys that a running head has on each page: its words, also with a page number replaced by its offset.

    Among words, a number above that of the `last` page is a record's, such as an invoice's, and stays.
    """
    text = " ".join(line.text.split())
    numbers = [*re.finditer(r"(?<!\d)\d{1,4}(?!\d)", text)]
    if not _ONLY_A_NUMBER.fullmatch(text):
        numbers = [number for number in numbers if 0 < int(number[0]) <= last]
    counted = (f"{text[: n.start()]}#{int(n[0]) - line.page}{text[n.end() :]}" for n in (*numbers[:1], *numbers[-1:]))
    return {text, *counted}


def _body_size(lines: Iterable[_Line]) -> float:
    """The size that most characters have."""
    letters: Counter[float] = Counter()
    for line in lines:
        letters[line.size] += len(line.text)
    return max(letters, key=letters.__getitem__, default=0.0)


def _assembled(lines: list[_Line], title: str) -> Text:
    """The text of lines with its pages, headings and rows; without headings if over a quarter is in larger letters."""
    texts, body = [line.text for line in lines], _body_size(lines)
    starts = line_starts(texts)
    lettered = (line.size for line in lines if not line.is_row and not _STAMP.match(line.text))
    sizes = sorted({size for size in lettered if size > _LARGER * body}, reverse=True)
    if 4 * sum(len(line.text) for line in lines if line.size in sizes) > sum(map(len, texts)):
        sizes = []
    pages, headings, rows, n = [(0, lines[0].page)], list[Heading](), list[tuple[int, int]](), 0
    for (page, is_row, size), group in itertools.groupby(lines, key=lambda line: (line.page, line.is_row, line.size)):
        first, n = n, n + len([*group])
        words, place = " ".join(texts[first:n]), (starts[first], starts[n] - 1)
        if page != pages[-1][1]:
            pages.append((place[0], page))
        if size in sizes and len(words) <= _LONGEST_HEADING and len(_LETTER.findall(words)) > 2:
            headings.append(Heading(min(6, sizes.index(size) + 1), words, *place))
        if is_row:
            goes_on = bool(rows) and rows[-1][1] + 1 == place[0]
            rows.append((rows.pop()[0], place[1]) if goes_on else place)
    return Text("\n".join(texts), title, unit="page", pages=pages, headings=headings, rows=rows)
