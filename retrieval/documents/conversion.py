"""Text of HTML, PDF and Office files, made in a process of its own, whose time and memory are limited.

The process is this module, run by `python -m`. It reads requests from standard input, a JSON line with kind and size
and then the file, and answers each with a JSON line: title, text and pages, or the problem. Files come from anywhere:
it may take a fixed amount of memory, writes no files, and runs nothing of what it reads.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import Self

SECONDS = 300.0
"""A file that takes longer is left out."""

_MEMORY = 6 * 2**30  # address space in bytes, most of which the libraries only reserve
_UNPACKED = 2**30  # bytes in an Office file, which is an archive
_TEXT = 64_000_000  # characters
_LINE_END_HYPHEN = "\ufffe"  # PDFium's, together with the end of the line
_SLIDE = re.compile(r"\s*<!-- Slide number: (\d+) -->\n?")
_LAYERED = b"\xd0\xcf\x11\xe0"  # the first bytes of encrypted Office files and of those before 2007


class Unreadable(Exception):
    """A file has no text that can be read; the message says why, in a few words."""


@dataclass(frozen=True)
class Text:
    """The text of a file as Markdown or plain text, its own title if it has one, and where each page begins.

    `pages` are (position in the text, number), ascending.
    """

    text: str
    title: str = ""
    pages: list[tuple[int, int]] = field(default_factory=list)


class Converter:
    """Converts files one after another, within so many seconds each; a context manager, which ends the process."""

    _process: subprocess.Popen[bytes] | None = None

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def convert(self, kind: str, content: bytes) -> Text:
        """The text of a file, or `Unreadable` with what is wrong with it."""
        answer = self._ask(kind, content)
        if "problem" in answer:
            raise Unreadable(answer["problem"])
        return Text(answer["text"], answer["title"], [(start, number) for start, number in answer["pages"]])

    def _ask(self, kind: str, content: bytes) -> dict[str, Any]:
        process = self._running()
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self._seconds, end)
        timer.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps({"kind": kind, "size": len(content)}).encode() + b"\n" + content)
            process.stdin.flush()
            return json.loads(process.stdout.readline())
        except (OSError, ValueError) as error:
            self._end()
            if late.is_set():
                raise Unreadable(f"takes longer than {self._seconds:g} seconds") from error
            raise Unreadable(f"brings its converter down (exit code {process.returncode})") from error
        finally:
            timer.cancel()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            # The threads of libraries would each reserve memory, which is limited.
            threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "knowgap.retrieval.documents.conversion"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def _answer_requests() -> None:
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
        title, text, pages = _CONVERTERS[kind](content)
    except Unreadable as problem:
        return {"problem": str(problem)}
    except MemoryError:
        return {"problem": f"needs more than {_MEMORY >> 30} GiB of memory"}
    except RecursionError:
        return {"problem": "is nested too deeply"}
    except ImportError as error:
        return {"problem": f"is a {kind} file, which needs `pip install 'knowgap[documents]'` ({error})"}
    except Exception as error:  # whatever a library raises for a damaged file
        reason = " ".join(str(error).split())[:200]
        return {"problem": f"is damaged ({type(error).__name__}{': ' if reason else ''}{reason})"}
    if len(text) > _TEXT:
        return {"problem": f"holds more than {_TEXT:,} characters"}
    return {"title": title, "text": text, "pages": pages}


_Converted = tuple[str, str, list[tuple[int, int]]]  # title, text and pages


def _html(content: bytes) -> _Converted:
    """Markdown of HTML, without scripts and styles; of links and pictures, the text alone."""
    from bs4 import BeautifulSoup
    from markdownify import ATX, MarkdownConverter

    soup = BeautifulSoup(content, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for element in soup(["script", "style", "template", "head", "title"]):
        element.decompose()
    for picture in soup("img"):
        picture.replace_with(str(picture.get("alt") or ""))
    markdown = MarkdownConverter(heading_style=ATX, strip=["a"], escape_misc=False).convert_soup(soup)
    return title, markdown.strip(), []


def _pdf(content: bytes) -> _Converted:
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
    return "", "\n".join(texts), pages


def _office(converter: str) -> Callable[[bytes], _Converted]:
    def convert(content: bytes) -> _Converted:
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
        return made.title or "", text + made.markdown[end:], pages

    return convert


_CONVERTERS: dict[str, Callable[[bytes], _Converted]] = {
    "HTML": _html,
    "PDF": _pdf,
    "Word": _office("DocxConverter"),
    "PowerPoint": _office("PptxConverter"),
    "Excel": _office("XlsxConverter"),
}

if __name__ == "__main__":
    _answer_requests()
