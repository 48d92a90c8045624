"""The text of Word and PowerPoint files."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any

from knowgap.retrieval.documents.text import Text, without_private
from knowgap.retrieval.documents.web_pages import read_html

_STYLES = "p[style-name='Title'] => p.word-title:fresh"
_EDGE = re.compile(r"word/(header|footer)\d*\.xml")


def read_word(content: bytes) -> Text:
    """Read a Word file as the page that mammoth makes of it; the paragraph in the style "Title" is the title.

    What stands in page headers is read once, above the text, and what stands in page footers once below it. Pictures
    are left out.
    """
    import mammoth

    edges: dict[str, dict[str, None]] = {"header": {}, "footer": {}}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in sorted(archive.namelist()):
            if edge := _EDGE.fullmatch(name):
                words = filter(re.compile(r"[^\W\d_]").search, _paragraphs(archive.read(name)))
                edges[edge[1]] |= dict.fromkeys(words)
    pictures: Any = mammoth.images.img_element(lambda picture: {"src": ""})
    page = mammoth.convert_to_html(io.BytesIO(content), style_map=_STYLES, convert_image=pictures).value
    above, below = ("".join(f"<p>{escape(words)}</p>" for words in edges[edge]) for edge in ("header", "footer"))
    return read_html(without_private(f"{above}{page}{below}"))


def _paragraphs(part: bytes) -> Iterator[str]:
    """The words of each paragraph of a part of a Word file."""
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(part, "html.parser")
    for space in soup(["w:tab", "w:br"]):
        space.replace_with(" ")
    return (" ".join(paragraph.get_text().split()) for paragraph in soup("w:p"))


def read_slides(content: bytes) -> Text:
    """Read a PowerPoint file slide by slide: titles as headings, texts, tables, and the notes of the speaker."""
    from pptx import Presentation

    text, places = io.StringIO(), []
    for number, slide in enumerate(Presentation(io.BytesIO(content)).slides, start=1):
        places.append((text.tell(), number))
        heading = slide.shapes.title
        title = " ".join(heading.text_frame.text.split()) if heading is not None else ""
        text.write(f"# {title or f'Slide {number}'}\n\n")
        spoken = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
        notes = [spoken.text] if spoken is not None else []
        for words in (*_words_of(shape for shape in slide.shapes if shape != heading), *notes):
            text.write(f"{words}\n\n")
    return Text(without_private(text.getvalue()), markdown=True, unit="slide", pages=places)


def _words_of(shapes: Iterable[Any]) -> Iterator[str]:
    """The texts and tables of shapes, and of those that are grouped."""
    for shape in shapes:
        if shape.has_text_frame:
            yield "\n\n".join(paragraph.text for paragraph in shape.text_frame.paragraphs)
        elif shape.has_table:
            yield _markdown([[cell.text for cell in row.cells] for row in shape.table.rows])
        else:
            yield from _words_of(getattr(shape, "shapes", ()))


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown, whose first row has the names of the columns."""
    lines = [f"| {' | '.join(' '.join(cell.replace('|', '/').split()) for cell in row)} |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])
