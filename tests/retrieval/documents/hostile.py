"""Hostile documents of each kind."""

from __future__ import annotations

from collections.abc import Callable

from tests.retrieval.documents.files import WORDS, archive, pdf, sheet

_ROOT = "<Types/>"
_SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def _docx(body: str) -> bytes:
    document = f'<w:document xmlns:w="{WORDS}"><w:body>{body}</w:body></w:document>'
    return archive({"[Content_Types].xml": _ROOT, "word/document.xml": document})


def _tables(depth: int) -> str:
    """Tables in tables, in the words of a Word file."""
    inner, outer = (f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in ("Innermost.", "The end."))
    return "<w:tbl><w:tr><w:tc>" * depth + inner + "</w:tc></w:tr></w:tbl>" * depth + outer


def _entities(levels: int) -> bytes:
    """A Word file whose text is one entity, each of which stands for ten of the one before."""
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, levels))
    document = f'<!DOCTYPE d [<!ENTITY e0 "many ">{entities}]><w:document xmlns:w="{WORDS}"><w:body><w:p><w:r><w:t>'
    document += f"&e{levels - 1};</w:t></w:r></w:p></w:body></w:document>"
    return archive({"[Content_Types].xml": _ROOT, "word/document.xml": document})


def _wide_sheet() -> bytes:
    """An Excel file of two cells, of which the second is the last that a sheet may have."""
    from io import BytesIO
    from zipfile import ZipFile

    ordinary = ZipFile(BytesIO(sheet("A", [["a"]])))
    cells = '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>'
    files: dict[str, str | bytes] = {name: ordinary.read(name) for name in ordinary.namelist()}
    rows = f'<worksheet xmlns="{_SHEETS}"><sheetData>{cells}</sheetData></worksheet>'
    return archive(files | {"xl/worksheets/sheet1.xml": rows})


def _page_tree(pages: int) -> bytes:
    """A PDF file that lists one page many times over."""
    kids = "3 0 R " * pages
    objects = f"1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Count {pages}/Kids[{kids}]>>endobj "
    content = "BT /F 9 Tf " + "(words of a page ) Tj " * 2_000 + "ET"
    objects += (
        "3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>endobj "
    )
    objects += f"4 0 obj<</Length {len(content)}>>stream\n{content}\nendstream endobj "
    objects += "5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj "
    return f"%PDF-1.4\n{objects}\ntrailer<</Root 1 0 R>>".encode()


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "tags that are never closed.html": lambda n: b"<a <b" * (60 * n),
    "comments that are never closed.html": lambda n: b"<!--" * (300 * n),
    "declarations that are never closed.html": lambda n: b"<![" * (300 * n),
    "references without an end.html": lambda n: b"&#" * (300 * n),
    "an attribute without an end.html": lambda n: b"<a " + b"b='c' " * (100 * n),
    "tables 400 deep.html": lambda n: b"<table><tr><td>x" * 400,
    "paragraphs that are never closed.html": lambda n: b"<p>words" * (20 * n),
    "inline elements 20,000 deep.html": lambda n: b"<b>" * (20 * n) + b"x",
    "a table of one row.html": lambda n: b"<table><tr>" + b"<td>x" * (20 * n),
    "lists in lists.html": lambda n: b"<ul><li>x" * n,
    "a span of a billion columns.html": lambda n: b"<table><tr><td colspan=1000000000>x</table>",
    "a page of 100 MB of text.docx": lambda n: _docx("<w:p><w:r><w:t>a</w:t></w:r></w:p>" * (3_000 * n)),
    "tables 400 deep.docx": lambda n: _docx(_tables(400)),
    "entities of entities.docx": lambda n: _entities(10),
    "two gigabytes of zeros.docx": lambda n: archive({f"{i}.bin": bytes(2**28) for i in range(8)}),
    "a sheet of two cells far apart.xlsx": lambda n: _wide_sheet(),
    "a sheet of many cells.xlsx": lambda n: sheet("A", [[0] * 200] * (2 * n)),
    "an archive of nothing.xlsx": lambda n: archive({}),
    "a page listed 100,000 times.pdf": lambda n: _page_tree(100 * n),
    "a page of many lines.pdf": lambda n: pdf([["word " * 20] * (5 * n)]),
    "rows without a table.md": lambda n: b"|a\n" * (1_000 * n),
    "a rule that is none.md": lambda n: b"# A\n\n|-" + b" " * (3_000 * n) + b"x\n" * 2_000,
    "a heading of spaces.md": lambda n: b"# a" + b" # " * n + b" " * (1_000 * n) + b"x",
    "headings.md": lambda n: b"# a\n" * (100 * n),
    "fences.md": lambda n: b"```\n" * (300 * n),
    "brackets.md": lambda n: b"[" * (1_000 * n),
    "emphasis.md": lambda n: b"*a " * (300 * n),
    "quotes in quotes.md": lambda n: b"> " * (100 * n),
    "one word.txt": lambda n: b"a" * (3_000 * n),
    "spaces.txt": lambda n: b"x" + b" " * (3_000 * n) + b"x",
    "line ends.txt": lambda n: b"x" + b"\n\n \n" * (1_000 * n) + b"x",
    "marks on one letter.txt": lambda n: ("a" + "\u0301" * (500 * n)).encode(),
    "bytes of no encoding.txt": lambda n: bytes(range(128, 256)) * (10 * n),
}
"""By name, what makes a hostile file; the number is 1,000, or less for a quick run."""
