"""The process that converts files into passages, which the system ends when a file takes too much time.

A converter may hang in a library's C code or in a regular expression, which cannot be interrupted in a thread. The
process therefore does all of the work on a file: `conversion`, run by `python -m`, decodes or converts it and splits
its text.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from contextlib import AbstractContextManager
from typing import Any

from knowgap.retrieval.documents.sources import Source
from knowgap.retrieval.documents.splitting import Splitter
from knowgap.retrieval.documents.text import NotNow, Unreadable
from knowgap.retrieval.passage import Passage

_OUT_OF_TIME, _KILLED = -24, -9  # exit codes after SIGXCPU and SIGKILL


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
            NotNow: the file may be readable later: the machine is short of memory, or a package is missing.
        """
        seconds = self._seconds + len(content) / 2**20 * self._per_mib * (4 if kind == "Excel" else 1)
        process = self._running()
        try:
            answer = json.loads(_ask(process, (name, kind, content, seconds)))
        except (OSError, ValueError) as error:  # its pipes are closed
            self._end()
            if process.returncode == _OUT_OF_TIME:
                raise Unreadable(
                    f"takes longer than the {seconds:.3g} seconds that a file of its size may take; save it in another "
                    "format, or in parts"
                ) from error
            if process.returncode == _KILLED:
                reason = "was not read, since the machine is short of memory; run the same command again"
                raise NotNow(reason) from error
            raise Unreadable(f"crashes its converter (exit code {process.returncode})") from error
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

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def _ask(process: subprocess.Popen[bytes], request: Any) -> bytes:
    """Write a request, and wait for the answer; it is empty if the process has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    pickle.dump(request, process.stdin)
    process.stdin.flush()
    return process.stdout.readline()
