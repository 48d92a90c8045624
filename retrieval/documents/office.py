"""The text of Word and PowerPoint files."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any

from knowgap.retrieval.documents.text import Text, line, without_private
from knowgap.retrieval.documents.web_pages import read_html, spread

_STYLES = "p[style-name='Title'] => p.word-title:fresh"
_PART = re.compile(r"word/(document|footnotes|endnotes|header|footer)\d*\.xml")
_AROUND_TEXT = [
    f"{{*}}{name}" for name in ["fldSimple", "moveTo", "customXml", "bdo", "dir", "ruby", "rubyBase", "oMathPara"]
]
"""Elements that mammoth leaves out with the text in them."""


def read_word(content: bytes) -> Text:
    """Read a Word file as the page that mammoth makes of it; the paragraph in the style "Title" is the title.

    What stands in page headers is read once, above the text, and what stands in page footers once below it. Pictures
    are left out.
    """
    import lxml.etree as etree
    import mammoth

    edges: dict[str, dict[str, None]] = {"header": {}, "footer": {}}
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(plain := io.BytesIO(), "w") as written:
        for name in sorted(name for name in archive.namelist() if name.endswith((".xml", ".rels"))):
            part = archive.read(name)
            if found := _PART.fullmatch(name):
                root = _plain(part)
                part = etree.tostring(root)
                if found[1] in edges:
                    edges[found[1]] |= dict.fromkeys(filter(re.compile(r"[^\W\d_]").search, _paragraphs(root)))
            written.writestr(name, part)
    pictures: Any = mammoth.images.img_element(lambda picture: {"src": ""})
    page = mammoth.convert_to_html(plain, style_map=_STYLES, convert_image=pictures).value
    above, below = ("".join(f"<p>{escape(words)}</p>" for words in edges[edge]) for edge in ("header", "footer"))
    return read_html(f"{above}{page}{below}")


def _plain(part: bytes) -> Any:
    """The root of a part of a Word file, with all of its text once, in elements that mammoth reads."""
    import lxml.etree as etree

    parser = etree.XMLParser(resolve_entities=False, huge_tree=True, remove_comments=True, remove_pis=True)
    root: Any = etree.fromstring(part, parser)
    words = f"{{{etree.QName(root).namespace}}}"
    etree.strip_elements(root, "{*}moveFrom", "{*}rt", "{*}Choice", with_tail=False)
    etree.strip_tags(root, *_AROUND_TEXT)
    for formula in [*root.iter("{*}oMath")]:
        symbols = "".join(each.text or "" for each in formula.iter("{*}t"))
        formula.clear(keep_tail=True)
        formula.tag = f"{words}r"
        etree.SubElement(formula, f"{words}t").text = symbols
    for gap in root.iter(f"{words}br"):
        if gap.get(f"{words}type") in ("page", "column"):
            gap.tag = f"{words}tab"
    return root


def _paragraphs(root: Any) -> Iterator[str]:
    """The words of each paragraph of a part of a Word file; a text box is not a part of that in which it stands."""
    for paragraph in root.iter("{*}p"):
        pieces = paragraph.iter("{*}t", "{*}tab", "{*}ptab", "{*}br")
        own = (piece.text or " " for piece in pieces if next(piece.iterancestors("{*}p")) is paragraph)
        yield " ".join("".join(own).split())


def read_slides(content: bytes) -> Text:
    """Read a PowerPoint file slide by slide: titles as headings, texts, tables, charts, and the speaker's notes."""
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
    """The texts, tables and charts of shapes, and of those that are grouped."""
    for shape in shapes:
        if shape.has_text_frame:
            yield "\n\n".join(paragraph.text for paragraph in shape.text_frame.paragraphs)
        elif shape.has_table:
            cells = ([cell for cell in row.cells if not cell.is_spanned] for row in shape.table.rows)
            yield _markdown(spread([[(one.text, one.span_height, one.span_width) for one in row] for row in cells]))
        elif shape.has_chart:
            chart = shape.chart
            yield chart.chart_title.text_frame.text if chart.has_title and chart.chart_title.has_text_frame else ""
            for series in chart.element.iter("{*}ser"):
                labels, values = _points(series, "cat", "xVal"), _points(series, "val", "yVal")
                yield f"{series.findtext('{*}tx//{*}v') or ''}: {line(values, labels)}"
        else:
            yield from _words_of(getattr(shape, "shapes", ()))


def _points(series: Any, *kinds: str) -> dict[int, str]:
    """What each point of a series has, by its number; of labels in several levels, the lowest."""
    found: dict[int, str] = {}
    for point in (point for kind in kinds for point in series.iterfind(f"{{*}}{kind}//{{*}}pt")):
        found.setdefault(int(point.get("idx")), point.findtext("{*}v") or "")
    return found


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown, whose first row has the names of the columns."""
    lines = [f"| {' | '.join(' '.join(cell.replace('|', '/').split()) for cell in row)} |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])
