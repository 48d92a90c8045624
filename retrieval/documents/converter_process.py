"""The process that makes text of HTML, PDF and Office files; started by `conversion`, which ends it if need be.

It reads one request after another from standard input, a JSON line with the kind and the size and then the file, and
answers each with a JSON line: title, text and pages, or the problem. Files come from anywhere: it may take a fixed
amount of memory, writes no files, and runs nothing of what it reads.
"""

from __future__ import annotations

import io
import json
import re
import sys
import zipfile
from collections.abc import Callable
from typing import Any, BinaryIO

__all__ = ["main"]

_MEMORY = 6 * 2**30  # address space in bytes, most of which the libraries only reserve
_UNPACKED = 2**30  # bytes in an Office file, which is an archive
_TEXT = 64_000_000  # characters
_LINE_END_HYPHEN = "\ufffe"  # PDFium's, together with the end of the line
_SLIDE = re.compile(r"\s*<!-- Slide number: (\d+) -->\n?")
_LAYERED = b"\xd0\xcf\x11\xe0"  # the first bytes of encrypted Office files and of those before 2007


class _Problem(Exception):
    """Why a file has no text."""


def main() -> None:
    """Answer requests until standard input is closed."""
    _limit_resources()
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what a library prints must not become an answer
    while line := requests.readline():
        request = json.loads(line)
        answers.write(json.dumps(_answer(request["kind"], requests.read(request["size"]))).encode() + b"\n")
        answers.flush()


def _limit_resources() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    for limit, value in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(limit)
        if hard == resource.RLIM_INFINITY or hard > value:
            resource.setrlimit(limit, (value, hard))


def _answer(kind: str, content: bytes) -> dict[str, Any]:
    try:
        answer = _CONVERTERS[kind](content)
    except _Problem as problem:
        return {"problem": str(problem)}
    except MemoryError:
        return {"problem": f"needs more than {_MEMORY >> 30} GiB of memory"}
    except RecursionError:
        return {"problem": "is nested too deeply"}
    except ImportError as error:
        return {"missing": str(error)}
    except Exception as error:  # whatever a library raises for a damaged file
        reason = " ".join(str(error).split())[:200]
        return {"problem": f"is damaged ({type(error).__name__}{': ' if reason else ''}{reason})"}
    if len(answer["text"]) > _TEXT:
        return {"problem": f"holds more than {_TEXT:,} characters"}
    return answer


def _html(content: bytes) -> dict[str, Any]:
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(content, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    return {"title": title, "text": _markdown(soup), "pages": []}


def _markdown(soup: Any) -> str:
    """Markdown of parsed HTML, without scripts and styles; of links and pictures, the text alone."""
    from markdownify import ATX, MarkdownConverter

    for element in soup(["script", "style", "template", "head", "title"]):
        element.decompose()
    for picture in soup("img"):
        picture.replace_with(picture.get("alt") or "")
    return MarkdownConverter(heading_style=ATX, strip=["a"], escape_misc=False).convert_soup(soup).strip()


def _pdf(content: bytes) -> dict[str, Any]:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        reason = "is encrypted" if "assword" in str(error) else "is damaged, or not a PDF file"
        raise _Problem(reason) from error
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
        raise _Problem(f"has {len(document)} pages without text (pictures of pages need character recognition first)")
    return {"title": "", "text": "\n".join(texts), "pages": pages}


def _office(converter: str) -> Callable[[bytes], dict[str, Any]]:
    def convert(content: bytes) -> dict[str, Any]:
        if content.startswith(_LAYERED):
            raise _Problem("is encrypted, or of a format from before 2007")
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                unpacked = sum(entry.file_size for entry in archive.infolist())
        except zipfile.BadZipFile as error:
            raise _Problem("is damaged, or not an Office file") from error
        if unpacked > _UNPACKED:
            raise _Problem(f"unpacks to {unpacked / 2**20:,.0f} MiB, and at most {_UNPACKED >> 20} are read")
        return _by_markitdown(converter, io.BytesIO(content))

    return convert


def _by_markitdown(converter: str, file: BinaryIO) -> dict[str, Any]:
    import markitdown
    import markitdown.converters

    made = getattr(markitdown.converters, converter)().convert(file, markitdown.StreamInfo())
    text, pages, end = "", [], 0
    slides = list(_SLIDE.finditer(made.markdown)) if converter == "PptxConverter" else []
    for slide in slides:
        text += made.markdown[end : slide.start()]
        text += "\n\n" if text else ""
        pages.append((len(text), int(slide[1])))
        end = slide.end()
    return {"title": made.title or "", "text": text + made.markdown[end:], "pages": pages}


_CONVERTERS: dict[str, Callable[[bytes], dict[str, Any]]] = {
    "HTML": _html,
    "PDF": _pdf,
    "Word": _office("DocxConverter"),
    "PowerPoint": _office("PptxConverter"),
    "Excel": _office("XlsxConverter"),
}

if __name__ == "__main__":
    main()
