"""The text of Word and PowerPoint files."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from html import escape
from typing import Any
from xml.etree.ElementTree import iterparse

from knowgap.retrieval.documents.text import Text, Unreadable, without_private
from knowgap.retrieval.documents.web_pages import NESTED, read_html

_UNPACKED = 2**30  # bytes in an Office file, which is an archive
_LAYERED = b"\xd0\xcf\x11\xe0"  # the first bytes of encrypted Office files and of those before 2007
_SLIDE = re.compile(r"\s*<!-- Slide number: (\d+) -->\n?")
_PICTURE = re.compile(r"!\[([^\]]*)\]\([^()\s]*\)")
_ESCAPE = re.compile(r"\\([_*\[\]()<>#.!+-])")
_LINK = re.compile(r"\[([^\[\]]*)\]\([^()\s]*\)")
_STYLES = "p[style-name='Title'] => p.word-title:fresh"
_WORD_EDGE = re.compile(r"word/(header|footer)\d*\.xml")


def checked_office(content: bytes) -> bytes:
    """Return the content of an Office file that is safe to unpack; raise `Unreadable` for others."""
    if content.startswith(_LAYERED):
        raise Unreadable("is encrypted, or in a format older than 2007")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
    except zipfile.BadZipFile as error:
        raise Unreadable("is damaged, or not an Office file") from error
    if unpacked > _UNPACKED:
        raise Unreadable(f"unpacks to {unpacked / 2**20:,.0f} MiB, and at most {_UNPACKED >> 20} are read")
    return content


def read_word(content: bytes) -> Text:
    """Read a Word file as the page that mammoth makes of it; the paragraph in the style "Title" is the title.

    What stands in page headers is read once, above the text, and what stands in page footers once below it.
    """
    archive = zipfile.ZipFile(io.BytesIO(checked_office(content)))
    edges: dict[str, dict[str, None]] = {"header": {}, "footer": {}}
    for name in sorted(archive.namelist()):
        if edge := _WORD_EDGE.fullmatch(name):
            paragraphs = (" ".join(words.split()) for words in _paragraphs(archive, name))
            edges[edge[1]] |= dict.fromkeys(words for words in paragraphs if re.search(r"[^\W\d_]", words))
    above, below = ("".join(f"<p>{escape(words)}</p>" for words in edges[edge]) for edge in ("header", "footer"))
    try:
        return read_html(without_private(f"{above}{_page(content)}{below}"))
    except RecursionError:
        words = [*edges["header"], *_paragraphs(archive, "word/document.xml"), *edges["footer"]]
        return Text("\n".join(filter(str.strip, words)), note=NESTED)


def _page(content: bytes) -> str:
    """The page of HTML that mammoth makes of a Word file, without its pictures; its formulas are written in LaTeX."""
    import mammoth

    pictures: Any = mammoth.images.img_element(lambda picture: {"src": ""})
    file: Any = io.BytesIO(content)
    with zipfile.ZipFile(file) as archive:
        formulas = b":oMath" in archive.read("word/document.xml")
    if formulas:  # importing it takes seconds
        from markitdown.converter_utils.docx.pre_process import pre_process_docx

        file = pre_process_docx(file)
    return mammoth.convert_to_html(file, style_map=_STYLES, convert_image=pictures).value


def _paragraphs(archive: zipfile.ZipFile, name: str) -> Iterator[str]:
    """The text of each paragraph of a part of a Word file."""
    with archive.open(name) as part:
        words: list[str] = []
        for _, element in iterparse(part):
            kind = element.tag.rpartition("}")[2]
            if kind == "p":
                yield "".join(words)
                words = []
            words.append({"t": element.text or "", "tab": " ", "br": " "}.get(kind, ""))


def read_slides(content: bytes) -> Text:
    """Read a PowerPoint file slide by slide, with the words of its pictures and notes."""
    import markitdown
    import markitdown.converters

    file = io.BytesIO(checked_office(content))
    made = markitdown.converters.PptxConverter().convert(file, markitdown.StreamInfo()).markdown
    for pattern in (_ESCAPE, _PICTURE, _LINK):
        made = pattern.sub(r"\1", made)
    made, text, pages, end = without_private(made.replace("\xa0", " ")), "", [], 0
    for slide in _SLIDE.finditer(made):
        text += made[end : slide.start()]
        text += "\n\n" if text else ""
        pages.append((len(text), int(slide[1])))
        end = slide.end()
    return Text(text + made[end:], markdown=True, unit="slide", pages=pages)
