"""The text of PDF files with their headings, without running heads and page numbers."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from knowgap.retrieval.documents.pdf_layout import Line, lines_of
from knowgap.retrieval.documents.text import Heading, Text, Unreadable, line_starts, without_private

_EDGE = 2  # lines at the top and at the bottom of a page among which running heads are looked for
_ROMAN = "i"  # a page number in Roman digits
_REPEATED = 3  # pages on which a line has to appear to be a running head
_LARGER = 1.12  # a line is a heading if it is larger than this many times the body size
_LONGEST_HEADING = 120  # characters
_LEADERS = re.compile(r"(?:\.\s?){5,}\s*\w*\s*$|^(?:\.\s?){5,}")
_CONTENTS = {"contents", "tableofcontents", "listoffigures", "listoftables", "inhaltsverzeichnis", "inhalt", "sommaire"}
_LED = 5  # lines with leaders that make a page part of a table of contents
_STAMP = re.compile(r"arXiv:\d")  # in the margin of a first page, in letters larger than the title's
_FILE_NAME = re.compile(r"\.\w{2,4}$|^Microsoft |^untitled$", re.IGNORECASE)


def read_pdf(content: bytes, most: int) -> Text:
    """Read the text of a PDF file, up to about `most` characters.

    The headings are the lines in larger letters than the body. A line that appears at the top or bottom of three
    or more pages, apart from its page number, is a running head; only its first occurrence is kept. Page numbers and
    the lines of a table of contents, which end in leaders, are left out. The title is that of the file's properties, or
    else the largest words of the first page.

    Raises:
        Unreadable: the file is encrypted or damaged, or has no text.
    """
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        reason = "is encrypted" if "assword" in str(error) else "is damaged, or not a PDF file"
        raise Unreadable(reason) from error
    pages, length, table = [], 0, None
    for number, page in enumerate(document, start=1):
        lines, table = lines_of(page, number, table)
        page.close()
        lines = [replace(line, text=without_private(line.text)) for line in lines]
        pages.append([line for line in lines if line.text.strip()])
        length += sum(len(line.text) + 1 for line in lines)
        if length > most:
            break
    lines = _without_contents(_without_running_heads(pages))
    if not lines:
        raise Unreadable(f"has {len(document)} pages without text (pictures of pages need character recognition first)")
    title = document.get_metadata_dict().get("Title", "").strip()
    return _assembled(lines, _larger(lines), _largest(lines) if _FILE_NAME.search(title) or " " not in title else title)


def _without_running_heads(pages: list[list[Line]]) -> list[Line]:
    body = _most_letters(line for lines in pages for line in lines)
    edges = [{*range(min(_EDGE, len(lines))), *range(max(0, len(lines) - _EDGE), len(lines))} for lines in pages]
    seen: Counter[str] = Counter()
    for lines, edge in zip(pages, edges, strict=True):
        seen.update({key for n in edge if not lines[n].is_row for key in _keys(lines[n])})
    kept: list[Line] = []
    told: set[str] = set()
    for lines, edge in zip(pages, edges, strict=True):
        for n, line in enumerate(lines):
            repeated = (
                {key for key in _keys(line) if seen[key] >= _REPEATED} if n in edge and not line.is_row else set()
            )
            if repeated and line.size <= _LARGER * body:
                if told & repeated or not re.search(r"[^\W\d_]", line.text) or _ROMAN in repeated:
                    continue
                told |= repeated
            kept.append(line)
    return kept


def _without_contents(lines: list[Line]) -> list[Line]:
    """Leave out the lines of tables of contents and their headings, unless no other lines are left."""
    led = Counter(line.page for line in lines if _LEADERS.search(line.text))
    leading = [
        bool(_LEADERS.search(line.text) or (led[line.page] >= _LED and re.search(r"\s[\dxvi]+$", line.text)))
        for line in lines
    ]
    kept = [
        line
        for n, line in enumerate(lines)
        if not leading[n] and not (_letters(line.text) in _CONTENTS and any(leading[n + 1 : n + 6]))
    ]
    return kept or lines


def _most_letters(lines: Iterable[Line]) -> float:
    """The size that most characters have, which is that of the body."""
    letters: Counter[float] = Counter()
    for line in lines:
        letters[line.size] += len(line.text)
    return max(letters, key=letters.__getitem__, default=0.0)


def _keys(line: Line) -> set[str]:
    """Keys that a running head has on each page: its words, also with a page number replaced by its offset."""
    text = " ".join(line.text.split())
    if re.fullmatch(r"[-–—\s]*[ivxlc]+[-–—\s]*", text):
        return {_ROMAN}
    numbers = [*re.finditer(r"\d{1,6}", text)]
    counted = (f"{text[: n.start()]}#{int(n[0]) - line.page}{text[n.end() :]}" for n in (*numbers[:1], *numbers[-1:]))
    return {text, *counted}


def _letters(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def _larger(lines: list[Line]) -> dict[int, tuple[int, int]]:
    """Lines larger than the body, as {first line: (lines, level)}; empty if over a quarter of the text is."""
    body = _most_letters(lines)
    lettered = (line for line in lines if not line.is_row and not _STAMP.match(line.text))
    sizes = sorted({line.size for line in lettered if line.size > _LARGER * body}, reverse=True)
    larger = sum(len(line.text) for line in lines if line.size in sizes)
    if not body or larger > sum(len(line.text) for line in lines) / 4:
        return {}
    found, n = {}, 0
    for (size, _, _), together in itertools.groupby(lines, key=lambda line: (line.size, line.page, line.is_row)):
        texts = [line.text for line in together]
        if size in sizes and _may_be_heading(" ".join(texts)):
            found[n] = (len(texts), min(6, sizes.index(size) + 1))
        n += len(texts)
    return found


def _largest(lines: list[Line]) -> str:
    """The title on the first page: its words that are larger than all others; empty if there are none."""
    sizes = [0.0 if _STAMP.match(line.text) else line.size for line in lines]
    found = [n for n, size in enumerate(sizes) if size == max(sizes)]
    words = " ".join(lines[n].text for n in found)
    together = found[-1] - found[0] < len(found) and lines[found[-1]].page == lines[0].page
    is_larger = max(sizes) > _LARGER * _most_letters(lines)
    return words if together and is_larger and _may_be_heading(words) else ""


def _may_be_heading(words: str) -> bool:
    """Whether words are not too long for a heading, and have three letters."""
    return len(words) <= _LONGEST_HEADING and len(re.findall(r"[^\W\d_]", words)) > 2


def _assembled(lines: list[Line], chosen: dict[int, tuple[int, int]], title: str) -> Text:
    texts = [line.text for line in lines]
    starts = line_starts(texts)
    pages = [(starts[n], line.page) for n, line in enumerate(lines) if not n or line.page != lines[n - 1].page]
    headings = [
        Heading(level, " ".join(texts[n : n + count]), starts[n], starts[n + count] - 1)
        for n, (count, level) in chosen.items()
    ]
    rows = [
        (starts[group[0]], starts[group[-1] + 1] - 1)
        for is_row, together in itertools.groupby(range(len(lines)), key=lambda n: lines[n].is_row)
        if is_row and (group := list(together))
    ]
    return Text("\n".join(texts), title, unit="page", pages=pages, headings=headings, rows=rows)
