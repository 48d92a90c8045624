"""Files of each kind into passages, in a process of its own, which the system ends when a file takes too much time.

A library may hang in C code or in a regular expression, which cannot be interrupted in a thread. The process therefore
does all of the work on a file: it decodes or converts it, and splits its text. Files are not trusted: no code in them
is run, and nothing is fetched. The process has limited memory and CPU time, and it writes no files. From standard input
it reads pickles: the splitter, and then of each file the name, kind, content and seconds. It answers each with a JSON
line.
"""

from __future__ import annotations

import codecs
import json
import os
import pickle
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import astuple, replace
from typing import Any

from knowgap.errors import shorten
from knowgap.retrieval.documents.markdown import find_blocks, read_markdown
from knowgap.retrieval.documents.office import read_slides, read_word
from knowgap.retrieval.documents.pdf import read_pdf
from knowgap.retrieval.documents.sheets import read_sheets, read_table
from knowgap.retrieval.documents.sources import Source
from knowgap.retrieval.documents.splitting import Splitter
from knowgap.retrieval.documents.text import NotNow, Text, Unreadable, without_private
from knowgap.retrieval.documents.web_pages import read_html
from knowgap.retrieval.passage import Passage

_MEMORY = 6 * 2**30  # bytes of address space; the libraries only reserve most of it
_OUT_OF_TIME = -24  # the exit code after SIGXCPU
_DEEPEST = 15_000  # calls within calls, for pages of elements that are never closed
_LAYERED = b"\xd0\xcf\x11\xe0"  # the first bytes of encrypted Office files and of those before 2007
_GUESSED_FROM = 1 << 16  # bytes
_DECLARED = re.compile(rb"(?:charset|encoding)\s?=\s?[\"']?([\w-]+)", re.IGNORECASE)
_LEGACY = (
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp874", "cp866", "koi8-r"),
    *("cp932", "euc-jp", "cp949", "gb18030", "big5", "utf-16", "utf-32"),
)
_MIXED = re.compile(r"[a-zA-Z][\u0370-\u1fff]|[\u0370-\u1fff][a-zA-Z]")  # such as a Cyrillic letter in a Latin word
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_UNUSED = re.compile("[\x80-\x9f]")  # letters of Windows, read in the encoding of another system
_PICTURE = re.compile(
    r"data:(?:[\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,[\w+/=%-]{8,}(?:\s{1,8}[\w+/=%-]{60,})*|data:image/[^)\s\"'>]*"
)


def convert(kind: str, content: bytes) -> Text:
    """Convert the content of a file to text; the kinds are those of `_OF_BYTES` and `_OF_TEXT`.

    Raises:
        Unreadable: the file is damaged, encrypted or not of its kind, or needs more memory than there is.
        NotNow: a package for this kind is not installed.
    """
    if content.startswith(_LAYERED):
        raise Unreadable("is encrypted, or in a format older than 2007")
    try:
        if kind in _OF_BYTES:
            return _OF_BYTES[kind](content)
        text, notes = decode(content)
        made = _OF_TEXT[kind](text)
        return replace(made, note="; ".join(filter(None, [*notes, made.note])))
    except Unreadable:
        raise
    except ImportError as error:
        raise NotNow(f"is a {kind} file, which needs `pip install 'knowgap[documents]'` ({error})") from error
    except Exception as error:  # libraries raise errors of any type for a damaged file
        raise Unreadable(f"cannot be read as {kind} ({shorten(error, 200) or type(error).__name__})") from error


def decode(content: bytes) -> tuple[str, list[str]]:
    """The text of a file without pictures and private-use characters, and notes about how it was read.

    A text that is not UTF-8, but for a few bytes, is read in the encoding that it declares, or in which it reads most
    like a language.

    Raises:
        Unreadable: it is not text.
    """
    notes, wrong = list[str](), 0
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("utf-8-sig", "replace")
        wrong = text.count("\ufffd")
        if 10 * wrong <= len(text) - len(text.encode("ascii", "ignore")) - wrong:
            notes.append(f"{wrong} {'byte is' if wrong == 1 else 'bytes are'} not UTF-8")
        else:
            encoding, wrong = _declared(content) or _guess(content), 0
            text = content.decode(encoding, "replace")
            if not encoding.startswith("UTF"):
                notes.append(f"is not UTF-8; read as {encoding}")
    most = len(text) / 100
    if "\0" in text or len(_CONTROLS.findall(text)) > most or text.count("\ufffd") > max(most, wrong):
        raise Unreadable("is not text")
    text, pictures = _PICTURE.subn("", text.replace("\r\n", "\n").replace("\r", "\n"))
    if pictures:
        notes.append(f"{pictures} {'picture' if pictures == 1 else 'pictures'} within the text left out")
    return without_private(text), notes


def _declared(content: bytes) -> str:
    """The encoding that a text names at its beginning, if it can be; what many pages name by habit is left to guess."""
    for name in _DECLARED.findall(content[:2048]):
        try:
            encoding = codecs.lookup(name.decode()).name
            text = content.decode(encoding)
        except (LookupError, ValueError):
            continue
        if encoding != "iso8859-1" and not encoding.startswith("utf") and not _UNUSED.search(text):
            return encoding
    return ""


def _guess(content: bytes) -> str:
    """The encoding that is most likely, of those in which the fewest words mix the letters of two scripts."""
    import chardet

    found = chardet.detect_all(content[:_GUESSED_FROM], ignore_threshold=True, include_encodings=_LEGACY)
    likely = [each["encoding"] for each in found if each["encoding"]]
    if not likely:
        raise Unreadable("is not text")
    return min(likely, key=lambda encoding: len(_MIXED.findall(content[:_GUESSED_FROM].decode(encoding, "replace"))))


_OF_BYTES = {"PDF": read_pdf, "Word": read_word, "PowerPoint": read_slides, "Excel": read_sheets}
_OF_TEXT: dict[str, Callable[[str], Text]] = {
    "text": lambda text: Text(text, headings=find_blocks(text, plain=True)[0]),
    "Markdown": read_markdown,
    "HTML": read_html,
    "CSV": read_table,
}


def _answer_requests() -> None:
    """Answer requests until standard input is closed."""
    _limit(AS=_MEMORY, FSIZE=0, CORE=0)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # prints of a library must not become answers
    sys.setrecursionlimit(_DEEPEST)
    splitter, answer = pickle.load(requests), dict[str, Any]()
    while True:
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()
        try:
            name, kind, content, seconds = pickle.load(requests)
        except EOFError:
            return
        _limit(CPU=int(time.process_time() + seconds) + 1)  # the system ends this process after that
        answer = _answer(splitter, name, kind, content)


def _limit(**most: int) -> None:
    """Limit resources of this process, which are named without the prefix `RLIMIT_`."""
    for name, value in most.items():
        limit = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(limit)
        resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _answer(splitter: Splitter, name: str, kind: str, content: bytes) -> dict[str, Any]:
    try:
        text = convert(kind, content)
        pieces = splitter.split_file(name, text)
        if not pieces:
            raise Unreadable("has no text")
    except Unreadable as problem:
        return {"problem": str(problem), "again": isinstance(problem, NotNow)}
    placed = [((passage.id, passage.title, passage.text), astuple(source)) for passage, source in pieces]
    return {"placed": placed, "note": text.note}


class Converter(AbstractContextManager[Any]):
    """Converts files into passages, one after another. It is a context manager, which ends the process at its exit.

    A MiB of an ordinary file takes about 3 seconds. A MiB of an Excel file takes 27, because it is highly compressed.

    Args:
        splitter: splits their texts.
        seconds: the CPU time that a file of any size may take.
        per_mib: the time added for each MiB of a file; an Excel file gets four times as much.
    """

    def __init__(self, splitter: Splitter, seconds: float = 15.0, per_mib: float = 30.0) -> None:
        self._splitter, self._seconds, self._per_mib = splitter, seconds, per_mib
        self._process: subprocess.Popen[bytes] | None = None

    def __exit__(self, *error: object) -> None:
        self._end()

    def convert(self, name: str, kind: str, content: bytes) -> tuple[list[tuple[Passage, Source]], str]:
        """The passages of a file with their places, and a note about how it was read, which may be empty.

        The name is the path of the file, relative to its folder.

        Raises:
            Unreadable: the file cannot be read, or takes too long.
            NotNow: the file may be readable later: the process was killed, or a package is missing.
        """
        seconds = self._seconds + len(content) / 2**20 * self._per_mib * (4 if kind == "Excel" else 1)
        try:
            answer = json.loads(_ask(self._running(), (name, kind, content, seconds)))
        except (OSError, ValueError) as error:  # its pipes are closed
            code = self._end()
            if code == _OUT_OF_TIME:
                reason = f"takes longer than the {seconds:.3g} seconds that a file of its size may take"
                raise Unreadable(reason) from error
            reason = f"was not read, since its converter ended (exit code {code}); run this again"
            raise NotNow(reason) from error
        if "problem" in answer:
            raise (NotNow if answer["again"] else Unreadable)(answer["problem"])
        return [(Passage(*of), Source(*at)) for of, at in answer["placed"]], answer["note"]

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            # Each thread of a library would reserve some of the limited memory.
            threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
            path = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
            self._process = subprocess.Popen(
                [sys.executable, "-m", "knowgap.retrieval.documents.conversion"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **threads, "PYTHONPATH": path},
                cwd=os.path.abspath(os.sep),  # `-m` imports from the current folder first, which may hold a json.py
            )
            _ask(self._process, self._splitter)
        return self._process

    def _end(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        process.kill()
        process.communicate()
        return process.returncode


def _ask(process: subprocess.Popen[bytes], request: Any) -> bytes:
    """Write a request, and wait for the answer; it is empty if the process has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    pickle.dump(request, process.stdin)
    process.stdin.flush()
    return process.stdout.readline()


if __name__ == "__main__":
    _answer_requests()
