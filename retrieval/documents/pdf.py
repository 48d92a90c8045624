"""The text of PDF files with their headings, without running heads and page numbers."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable

from knowgap.retrieval.documents.pdf_layout import Line, lines_of
from knowgap.retrieval.documents.text import Heading, Text, Unreadable, line_starts

_EDGE = 2  # lines at the top and at the bottom of a page among which running heads are looked for
_REPEATED = 3  # pages on which a line has to appear to be a running head
_LARGER = 1.12  # a line is a heading if it is larger than this many times the body size
_LONGEST_HEADING = 120  # characters
_LETTER = re.compile(r"[^\W\d_]")
_LEADERS = re.compile(r"(?:\.\s?){5,}\s*\w*\s*$|^(?:\.\s?){5,}")
_STAMP = re.compile(r"arXiv:\d")  # in the margin of a first page, in letters larger than the title's
_FILE_NAME = re.compile(r"\.\w{2,4}$|^Microsoft |^untitled$", re.IGNORECASE)


def read_pdf(content: bytes) -> Text:
    """Read the text of a PDF file.

    The headings are the lines in larger letters than the body. A line that appears at the top or bottom of three
    or more pages, apart from its page number, is a running head; only its first occurrence is kept. Page numbers and
    lines with leaders, of a table of contents, are left out. The title is that of the file's properties.

    Raises:
        Unreadable: the file is encrypted or damaged, or has no text.
    """
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        reason = "is encrypted" if "assword" in str(error) else "is damaged, or not a PDF file"
        raise Unreadable(reason) from error
    pages, table = list[list[Line]](), None
    for number, page in enumerate(document, start=1):
        lines, table = lines_of(page, number, table)
        page.close()
        pages.append([line for line in lines if line.text.strip()])
    lines = _without_running_heads(pages)
    lines = [line for line in lines if not _LEADERS.search(line.text)] or lines
    if not lines:
        raise Unreadable(f"has {len(document)} pages without text (pictures of pages need character recognition first)")
    title = document.get_metadata_dict().get("Title", "").strip()
    return _assembled(lines, "" if _FILE_NAME.search(title) or " " not in title else title)


def _without_running_heads(pages: list[list[Line]]) -> list[Line]:
    largest = _LARGER * _body_size(itertools.chain(*pages))
    edges = [
        [line for line in (*lines[:_EDGE], *lines[_EDGE:][-_EDGE:]) if not line.is_row and line.size <= largest]
        for lines in pages
    ]
    seen = Counter(key for lines in edges for key in {key for line in lines for key in _keys(line)})
    kept, told, may_be = list[Line](), set[str](), {id(line) for line in itertools.chain(*edges)}
    for line in itertools.chain(*pages):
        repeated = {key for key in _keys(line) if seen[key] >= _REPEATED} if id(line) in may_be else set[str]()
        if not repeated or (not told & repeated and _LETTER.search(line.text)):
            kept.append(line)
        told |= repeated
    return kept


def _keys(line: Line) -> set[str]:
    """Keys that a running head has on each page: its words, also with a page number replaced by its offset."""
    text = " ".join(line.text.split())
    numbers = [*re.finditer(r"\d{1,6}", text)]
    counted = (f"{text[: n.start()]}#{int(n[0]) - line.page}{text[n.end() :]}" for n in (*numbers[:1], *numbers[-1:]))
    return {text, *counted}


def _body_size(lines: Iterable[Line]) -> float:
    """The size that most characters have."""
    letters: Counter[float] = Counter()
    for line in lines:
        letters[line.size] += len(line.text)
    return max(letters, key=letters.__getitem__, default=0.0)


def _assembled(lines: list[Line], title: str) -> Text:
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
