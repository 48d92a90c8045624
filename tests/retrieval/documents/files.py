"""Files of each kind, made on the spot, and the passages of such a file."""

import io
import zipfile
from collections.abc import Sequence
from typing import Any

from knowgap.retrieval.documents.splitting import Splitter
from knowgap.retrieval.documents.text import Text
from knowgap.retrieval.minilm import embedded_window

WINDOW = embedded_window()
SPLITTER = Splitter(WINDOW)


def passages_of(text: Text) -> list[tuple[str, str]]:
    """Titles and texts of the passages."""
    return [(passage.title, passage.text) for passage, _ in SPLITTER.split_file("file", text)]


WORDS = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
OTHERS = (
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    ' xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)


def pdf(pages: Sequence[Sequence[str]], password: str | None = None) -> bytes:
    """A PDF file of some lines on each page."""
    return drawn(*([(50, 800 - 14 * n, line) for n, line in enumerate(lines)] for lines in pages), password=password)


def drawn(*pages: Any, title: str = "", password: str | None = None) -> bytes:
    """A PDF file of texts on pages: (points from the left, points from the bottom, text, size or 10, degrees or 0).

    Texts that are given instead of pages are on one page.
    """
    from reportlab.lib.pdfencrypt import StandardEncryption
    from reportlab.pdfgen.canvas import Canvas

    file = io.BytesIO()
    canvas = Canvas(file, encrypt=StandardEncryption(password) if password else None)
    canvas.setTitle(title)
    for page in [pages] if pages and isinstance(pages[0], tuple) else pages:
        for x, y, text, *how in page:
            size, degrees = [*how, *(10, 0)[len(how) :]]
            canvas.saveState()
            canvas.setFont("Helvetica", size)
            canvas.translate(x, y)
            canvas.rotate(degrees)
            canvas.drawString(0, 0, text)
            canvas.restoreState()
        canvas.showPage()
    canvas.save()
    return file.getvalue()


def word(
    paragraphs: Sequence[tuple[str, str]], rows: Sequence[Sequence[str | None]] = (), **edges: Sequence[str]
) -> bytes:
    """A Word file of paragraphs, each a style ("Heading1", "" for none) and a text, and of a table.

    A cell that is None is merged with the one above it. `header1`, `footer1` and so on are the lines of such a part.
    A text may begin with elements instead of words.
    """
    body = "".join(_paragraph(text, style) for style, text in paragraphs)
    cells = "".join(f"<w:tr>{''.join(map(_cell, row))}</w:tr>" for row in rows)
    body += f"<w:tbl>{cells}</w:tbl>" if rows else ""
    names = {"Titel": "Title", "Heading1": "heading 1", "Heading2": "heading 2"}
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{id}"><w:name w:val="{name}"/></w:style>' for id, name in names.items()
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("word/document.xml", f"<w:document {WORDS} {OTHERS}><w:body>{body}</w:body></w:document>")
        packed.writestr("word/styles.xml", f"<w:styles {WORDS}>{styles}</w:styles>")
        for name, lines in edges.items():
            packed.writestr(f"word/{name}.xml", f"<w:hdr {WORDS} {OTHERS}>{''.join(map(_paragraph, lines))}</w:hdr>")
    return file.getvalue()


def _paragraph(text: str, style: str = "") -> str:
    inner = text if text.startswith("<") else run(text)
    return f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr>{inner}</w:p>'


def run(text: str) -> str:
    """A run of a paragraph of a Word file."""
    return f"<w:r><w:t>{text}</w:t></w:r>"


def _cell(text: str | None) -> str:
    merged = "<w:vMerge/>" if text is None else '<w:vMerge w:val="restart"/>'
    return f"<w:tc><w:tcPr>{merged}</w:tcPr>{_paragraph(text or '')}</w:tc>"


def sheet(name: str, rows: Sequence[Sequence[object]], merged: Sequence[str] = (), shares: Sequence[str] = ()) -> bytes:
    """An Excel file of one sheet with ranges of merged cells and cells in percent, and of an empty sheet."""
    from openpyxl import Workbook

    book, file = Workbook(), io.BytesIO()
    page: Any = book.active
    page.title = name
    for row in rows:
        page.append(list(row))
    for place in merged:
        page.merge_cells(place)
    for place in shares:
        page[place].number_format = "0.0%"
    book.create_sheet("Empty")
    book.save(file)
    return file.getvalue()
