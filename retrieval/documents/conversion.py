"""Conversion of files of each kind to text. Files are not trusted: no code in them is run, and nothing is fetched."""

from __future__ import annotations

import codecs
import contextlib
import io
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from xml.etree.ElementTree import iterparse

from knowgap.retrieval.documents.markdown import read_markdown, underlined_headings
from knowgap.retrieval.documents.pdf import read_pdf
from knowgap.retrieval.documents.spreadsheets import read_sheets, read_table
from knowgap.retrieval.documents.text import NotNow, Text, Unreadable
from knowgap.retrieval.documents.web_pages import NESTED, read_html

MEMORY = 6 * 2**30
"""The address space in bytes of a process that converts files; the libraries only reserve most of it."""

_UNPACKED = 2**30  # bytes in an Office file, which is an archive
_TEXT = 64_000_000  # characters
_SLIDE = re.compile(r"\s*<!-- Slide number: (\d+) -->\n?")
_ESCAPE = re.compile(r"\\([_*\[\]()<>#.!+-])")
_LINK = re.compile(r"(?<!!)\[([^\[\]]*)\]\([^()\s]*\)")
_LAYERED = b"\xd0\xcf\x11\xe0"  # the first bytes of encrypted Office files and of those before 2007
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"}
_BOMS |= {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_GUESSED_FROM = 1 << 16  # bytes
_LEGACY = ["cp1252", *(f"cp125{n}" for n in (0, 1, 3, 4, 5, 6, 7, 8)), "cp874", "cp932", "cp949", "big5", "gb18030"]
_LEGACY += ["euc_jp", "koi8_r", "iso8859_2"]
"""Legacy encodings, the most common first; the first one wins if the text fits several equally well."""


def convert(kind: str, content: bytes) -> Text:
    """Convert the content of a file to text; the kinds are those of `_CONVERTERS`.

    Raises:
        Unreadable: the file is damaged, encrypted, too long or not of its kind.
        NotNow: a package for this kind is not installed.
        MemoryError: it needs more memory than there is.
    """
    try:
        made = _CONVERTERS[kind](content)
    except (Unreadable, MemoryError):
        raise
    except RecursionError as error:
        raise Unreadable("is nested too deeply") from error
    except ImportError as error:
        raise NotNow(f"is a {kind} file, which needs `pip install 'knowgap[documents]'` ({error})") from error
    except Exception as error:  # libraries raise errors of any type for a damaged file
        reason = " ".join(str(error).split())[:200]
        raise Unreadable(f"is damaged ({type(error).__name__}{': ' if reason else ''}{reason})") from error
    if len(made.text) > _TEXT:
        raise Unreadable(f"holds more than {_TEXT:,} characters")
    return made


def _read_with(read: Callable[[str], Text]) -> Callable[[bytes], Text]:
    def convert(content: bytes) -> Text:
        text, guessed = decode(content)
        made = read(text)
        return replace(made, note="; ".join(filter(None, [guessed and f"is not UTF-8; read as {guessed}", made.note])))

    return convert


def _read_page(content: bytes) -> Text:
    """Convert a web page in the encoding that it declares; without a usable one, as `decode` does."""
    from bs4.dammit import EncodingDetector

    marked = any(content.startswith(mark) for mark in _BOMS)
    if declared := None if marked else EncodingDetector.find_declared_encoding(content, is_html=True):
        with contextlib.suppress(LookupError, UnicodeError):
            return read_html(content.decode(declared))
    return _read_with(read_html)(content)


def decode(content: bytes) -> tuple[str, str]:
    """The text of a file, and its encoding if that had to be guessed; raises `Unreadable` if it is not text."""
    if content.startswith(b"%PDF-"):
        raise Unreadable("holds a PDF file, but its name does not end in .pdf")
    encoding = next((name for mark, name in _BOMS.items() if content.startswith(mark)), "utf-8")
    guessed = ""
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        from charset_normalizer import from_bytes

        if b"\0" in content:
            raise Unreadable("is not text") from None
        found = list(from_bytes(content[:_GUESSED_FROM], cp_isolation=_LEGACY))
        found.sort(key=lambda match: (match.chaos, -match.coherence, _LEGACY.index(match.encoding)))
        guessed = found[0].encoding if found else "cp1252"
        try:
            text = content.decode(guessed)
        except UnicodeDecodeError:
            raise Unreadable(f"is not text (neither in UTF-8 nor in {guessed})") from None
    controls = len(re.findall(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]", text))
    if "\0" in text or controls > len(text) / 100:
        raise Unreadable("is not text")
    return text, guessed


def _checked_office(content: bytes) -> bytes:
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


def _office(converter: str) -> Callable[[bytes], Text]:
    def convert(content: bytes) -> Text:
        _checked_office(content)
        import markitdown
        import markitdown.converters

        made = getattr(markitdown.converters, converter)().convert(io.BytesIO(content), markitdown.StreamInfo())
        markdown = _LINK.sub(r"\1", _ESCAPE.sub(r"\1", made.markdown.replace("\xa0", " ")))
        text, pages, end = "", [], 0
        for slide in _SLIDE.finditer(markdown) if converter == "PptxConverter" else ():
            text += markdown[end : slide.start()]
            text += "\n\n" if text else ""
            pages.append((len(text), int(slide[1])))
            end = slide.end()
        return Text(text + markdown[end:], made.title or "", pages)

    return convert


def _word(content: bytes) -> Text:
    try:
        return _office("DocxConverter")(content)
    except RecursionError:
        with zipfile.ZipFile(io.BytesIO(content)) as archive, archive.open("word/document.xml") as document:
            kinds = ((element.tag.rpartition("}")[2], element) for _, element in iterparse(document))
            words = [{"t": element.text or "", "p": "\n"}.get(kind, "") for kind, element in kinds]
        return Text("".join(words).strip(), note=NESTED)


_CONVERTERS: dict[str, Callable[[bytes], Text]] = {
    "text": _read_with(lambda text: Text(text, headings=underlined_headings(text))),
    "Markdown": _read_with(read_markdown),
    "HTML": _read_page,
    "PDF": lambda content: read_pdf(content, _TEXT),
    "Word": _word,
    "PowerPoint": _office("PptxConverter"),
    "Excel": lambda content: read_sheets(_checked_office(content)),
    "CSV": _read_with(read_table),
}
