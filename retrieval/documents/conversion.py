"""Text of HTML, PDF and Office files, made in a process of its own, whose time and memory are limited.

A file that takes too long or brings that process down costs this file alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from typing_extensions import Self

from knowgap.retrieval.documents.folder import Unreadable

__all__ = ["SECONDS", "Converter", "Text"]

SECONDS = 300.0
"""A file that takes longer is left out."""

_LIBRARIES = {"PDF": "pypdfium2", "Word": "markitdown", "PowerPoint": "markitdown", "Excel": "markitdown"}


@dataclass(frozen=True)
class Text:
    """The text of a file.

    Args:
        text: it, as Markdown or plain text.
        title: the title that the file gives itself; empty if it has none.
        pages: where each page begins, as (position in the text, number), ascending.
    """

    text: str
    title: str = ""
    pages: list[tuple[int, int]] = field(default_factory=list)


class Converter:
    """Converts files one after another; a context manager, which ends the process.

    Args:
        seconds: how long a file may take.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def convert(self, kind: str, content: bytes) -> Text:
        """The text of a file.

        Raises:
            Unreadable: it is damaged, encrypted, without text, too large for its time and memory, or of a kind for
                which the extra `documents` is not installed.
        """
        library = _LIBRARIES.get(kind)
        if library is not None and find_spec(library) is None:
            raise Unreadable(f"is a {kind} file, which needs `pip install 'knowgap[documents]'`")
        answer = self._ask(kind, content)
        if "missing" in answer:
            raise Unreadable(f"is a {kind} file, which needs `pip install 'knowgap[documents]'` ({answer['missing']})")
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
            process.stdin.write(json.dumps({"kind": kind, "size": len(content)}).encode() + b"\n")
            process.stdin.write(content)
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
                [sys.executable, "-m", "knowgap.retrieval.documents.converter_process"],
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
