"""Text of files of each kind. A file may come from anywhere: nothing in it is run, and nothing is fetched."""

from __future__ import annotations

import codecs
import io
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from xml.etree.ElementTree import iterparse

MEMORY = 6 * 2**30
"""Address space in bytes of a process that converts files, most of which the libraries only reserve."""

_UNPACKED = 2**30  # bytes in an Office file, which is an archive
_TEXT = 64_000_000  # characters
_LINE_END_HYPHEN = "\ufffe"  # PDFium's, together with the end of the line
_SLIDE = re.compile(r"\s*<!-- Slide number: (\d+) -->\n?")
_LAYERED = b"\xd0\xcf\x11\xe0"  # the first bytes of encrypted Office files and of those before 2007
_HIDDEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE)
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"}
_BOMS |= {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_NESTED = "is nested too deeply for headings and tables; read as plain text"
_GUESSED_FROM = 1 << 16  # bytes


class Unreadable(Exception):
    """A file has no text that can be read; the message says why, in a few words."""


class NotNow(Unreadable):
    """A file cannot be read as things are; another time, or with another library, it may be."""


@dataclass(frozen=True)
class Text:
    """The text of a file as Markdown or plain text.

    Args:
        text: what the file says.
        title: its own title; empty if it has none.
        pages: where each page begins: (position in the text, number), ascending.
        note: what is to be known about how it was read; empty for nothing.
    """

    text: str
    title: str = ""
    pages: list[tuple[int, int]] = field(default_factory=list)
    note: str = ""


def convert(kind: str, content: bytes) -> Text:
    """The text of a file.

    Args:
        kind: one of "text", "Markdown", "HTML", "PDF", "Word", "PowerPoint" and "Excel".
        content: the bytes of the file.

    Raises:
        Unreadable: for whatever is wrong with the file.
        MemoryError: if it needs more memory than there is.
    """
    try:
        made = _CONVERTERS[kind](content)
    except (Unreadable, MemoryError):
        raise
    except RecursionError as error:
        raise Unreadable("is nested too deeply") from error
    except ImportError as error:
        raise NotNow(f"is a {kind} file, which needs `pip install 'knowgap[documents]'` ({error})") from error
    except Exception as error:  # whatever a library raises for a damaged file
        reason = " ".join(str(error).split())[:200]
        raise Unreadable(f"is damaged ({type(error).__name__}{': ' if reason else ''}{reason})") from error
    if len(made.text) > _TEXT:
        raise Unreadable(f"holds more than {_TEXT:,} characters")
    return made


def _plain(content: bytes) -> Text:
    text, guessed = decode(content)
    return Text(text, note=f"is not UTF-8; read as {guessed}" if guessed else "")


def decode(content: bytes) -> tuple[str, str]:
    """The text of a file, and the encoding where it had to be guessed."""
    encoding = next((name for mark, name in _BOMS.items() if content.startswith(mark)), "utf-8")
    guessed = ""
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        from charset_normalizer import from_bytes

        if b"\0" in content:
            raise Unreadable("is not text") from None
        best = from_bytes(content[:_GUESSED_FROM]).best()
        guessed = best.encoding if best is not None else "cp1252"
        try:
            text = content.decode(guessed)
        except UnicodeDecodeError:
            raise Unreadable(f"is not text (neither in UTF-8 nor in {guessed})") from None
    controls = len(re.findall(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]", text))
    if "\0" in text or controls > len(text) / 100:
        raise Unreadable("is not text")
    return text, guessed


def _html(content: bytes) -> Text:
    """Markdown of HTML, without scripts, styles and hidden elements; of links and pictures, the text alone."""
    from bs4 import BeautifulSoup
    from markdownify import ATX, MarkdownConverter

    soup = BeautifulSoup(content, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    unseen = [*soup(["script", "style", "template", "head", "title"]), *soup(style=_HIDDEN), *soup(hidden=_not_found)]
    for element in unseen:
        element.decompose()
    for picture in soup("img"):
        picture.replace_with(str(picture.get("alt") or ""))
    try:
        markdown = MarkdownConverter(heading_style=ATX, strip=["a"], escape_misc=False).convert_soup(soup)
    except RecursionError:
        return Text(soup.get_text("\n", strip=True), title, note=_NESTED)
    return Text(markdown.strip(), title)


def _not_found(hidden: str | None) -> bool:
    """Whether the attribute `hidden` hides an element for good; a search in the page opens those "until-found"."""
    return hidden is not None and hidden.strip().lower() != "until-found"


def _pdf(content: bytes) -> Text:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        reason = "is encrypted" if "assword" in str(error) else "is damaged, or not a PDF file"
        raise Unreadable(reason) from error
    texts, pages, length = [], [], 0
    for number, page in enumerate(document, start=1):
        words = page.get_textpage()
        text = words.get_text_range().replace("\r\n", "\n").replace(_LINE_END_HYPHEN, "").strip()
        words.close()
        page.close()
        if text:
            texts.append(text)
            pages.append((length, number))
            length += len(text) + 1
        if length > _TEXT:
            break
    if not texts:
        raise Unreadable(f"has {len(document)} pages without text (pictures of pages need character recognition first)")
    return Text("\n".join(texts), pages=pages)


def _office(converter: str) -> Callable[[bytes], Text]:
    def convert(content: bytes) -> Text:
        if content.startswith(_LAYERED):
            raise Unreadable("is encrypted, or of a format from before 2007")
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                unpacked = sum(entry.file_size for entry in archive.infolist())
        except zipfile.BadZipFile as error:
            raise Unreadable("is damaged, or not an Office file") from error
        if unpacked > _UNPACKED:
            raise Unreadable(f"unpacks to {unpacked / 2**20:,.0f} MiB, and at most {_UNPACKED >> 20} are read")
        import markitdown
        import markitdown.converters

        made = getattr(markitdown.converters, converter)().convert(io.BytesIO(content), markitdown.StreamInfo())
        text, pages, end = "", [], 0
        for slide in _SLIDE.finditer(made.markdown) if converter == "PptxConverter" else ():
            text += made.markdown[end : slide.start()]
            text += "\n\n" if text else ""
            pages.append((len(text), int(slide[1])))
            end = slide.end()
        return Text(text + made.markdown[end:], made.title or "", pages)

    return convert


def _word(content: bytes) -> Text:
    try:
        return _office("DocxConverter")(content)
    except RecursionError:
        with zipfile.ZipFile(io.BytesIO(content)) as archive, archive.open("word/document.xml") as document:
            kinds = ((element.tag.rpartition("}")[2], element) for _, element in iterparse(document))
            words = [{"t": element.text or "", "p": "\n"}.get(kind, "") for kind, element in kinds]
        return Text("".join(words).strip(), note=_NESTED)


_CONVERTERS: dict[str, Callable[[bytes], Text]] = {
    "text": _plain,
    "Markdown": _plain,
    "HTML": _html,
    "PDF": _pdf,
    "Word": _word,
    "PowerPoint": _office("PptxConverter"),
    "Excel": _office("XlsxConverter"),
}
