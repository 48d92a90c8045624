"""Conversion of files into passages in a separate process, which is killed when a file takes too long.

A converter may hang in a library's C code or in a regular expression, which cannot be interrupted in a thread. The
process therefore does all of the work on a file: it decodes or converts the file and splits its text. It runs this
module by `python -m`. From standard input it reads the pickled splitter, and then requests, each a JSON line with
name, kind, size and seconds, followed by the file. It answers each with a JSON line. Its memory and CPU time are
limited, and it writes no files.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import astuple
from typing import Any

from typing_extensions import Self

from knowgap.retrieval.documents.conversion import MEMORY, convert
from knowgap.retrieval.documents.sources import Source
from knowgap.retrieval.documents.splitting import Splitter
from knowgap.retrieval.documents.text import NotNow, Unreadable
from knowgap.retrieval.passage import Passage

_START = 60.0  # seconds to wait for the process to start, before the time of a file begins
_OUT_OF_TIME, _KILLED = -24, -9  # exit codes after SIGXCPU and SIGKILL
_PATIENCE = 10  # a file may take this many times its CPU time on the clock, if other processes keep the CPU busy


class Converter:
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
        self._thread = ThreadPoolExecutor(1, "knowgap-converter")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()
        self._thread.shutdown()

    def convert(
        self,
        name: str,
        kind: str,
        content: bytes,
        waiting: Callable[[str], None] = lambda text: None,
    ) -> tuple[list[tuple[Passage, Source]], str]:
        """The passages of a file with their places, and a note about how it was read, which may be empty.

        The name is the path of the file, relative to its folder. `waiting` is called about once a second with a text
        for the user.

        Raises:
            Unreadable: the file cannot be read, or takes too long.
            NotNow: the file may be readable later: the machine is busy, or a package is missing.
        """
        seconds = self._seconds + len(content) / 2**20 * self._per_mib * (4 if kind == "Excel" else 1)
        answer = self._ask(name, kind, content, seconds, waiting)
        if "problem" in answer:
            raise (NotNow if answer["again"] else Unreadable)(answer["problem"])
        return [(Passage(*of), Source(*at)) for of, at in answer["placed"]], answer["note"]

    def _ask(
        self, name: str, kind: str, content: bytes, seconds: float, waiting: Callable[[str], None]
    ) -> dict[str, Any]:
        process = self._running()
        head = {"name": name, "kind": kind, "size": len(content), "seconds": seconds}
        answer = self._thread.submit(_exchange, process, json.dumps(head).encode() + b"\n" + content)
        reason = f"takes longer than the {seconds:.3g} seconds that a file of its size may take"
        started = time.monotonic()
        while not answer.done():
            passed = time.monotonic() - started
            if passed >= _PATIENCE * seconds:
                self._end()
                raise NotNow(f"{reason}, since the machine is busy; run the same command again to read it")
            if passed >= 1:
                waiting(f"reading {name} for {passed:.0f} s")
            wait([answer], min(1.0, _PATIENCE * seconds))
        try:
            return json.loads(answer.result())
        except (OSError, ValueError) as error:
            self._end()
            if process.returncode == _OUT_OF_TIME:
                raise Unreadable(f"{reason}; save it in another format, or in parts") from error
            if process.returncode == _KILLED:  # the system does so if the machine is short of memory
                raise NotNow("was not read, since its converter was killed; run the same command again") from error
            raise Unreadable(f"crashes its converter (exit code {process.returncode})") from error

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            # Each thread of a library would reserve some of the limited memory.
            threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
            path = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
            self._process = subprocess.Popen(
                [sys.executable, "-m", "knowgap.retrieval.documents.converter"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **threads, "PYTHONPATH": path},
                cwd=os.path.abspath(os.sep),  # `-m` imports from the current folder first, which may hold a json.py
            )
            wait([self._thread.submit(_exchange, self._process, pickle.dumps(self._splitter))], _START)
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            # The pipes are closed in the thread, after an exchange that waits for the process has seen its end.
            self._thread.submit(process.communicate)


def _exchange(process: subprocess.Popen[bytes], request: bytes) -> bytes:
    """Write a request, and read the answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(request)
    process.stdin.flush()
    return process.stdout.readline()


def _answer_requests() -> None:
    """Answer requests until standard input is closed."""
    _limit(AS=MEMORY, FSIZE=0, CORE=0)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # prints of a library must not become answers

    def answer(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value).encode() + b"\n")
        answers.flush()

    splitter: Splitter = pickle.load(requests)
    answer({})
    while line := requests.readline():
        request = json.loads(line)
        content = requests.read(request["size"])
        _limit(CPU=int(time.process_time() + request["seconds"]) + 1)  # the system ends this process after that
        answer(_answer(splitter, request["name"], request["kind"], content))


def _limit(**most: int) -> None:
    """Limit resources of this process, which are named without the prefix `RLIMIT_`."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for name, value in most.items():
        limit = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(limit)
        if hard == resource.RLIM_INFINITY or hard > value:
            resource.setrlimit(limit, (value, hard))


def _answer(splitter: Splitter, name: str, kind: str, content: bytes) -> dict[str, Any]:
    try:
        text = convert(kind, content)
        pieces = splitter.split_file(name, text)
        if not pieces:
            raise Unreadable("has no text")
    except Unreadable as problem:
        return {"problem": str(problem), "again": isinstance(problem, NotNow)}
    except MemoryError:
        return {"problem": f"needs more than {MEMORY >> 30} GiB of memory", "again": False}
    placed = [((passage.id, passage.title, passage.text), astuple(source)) for passage, source in pieces]
    return {"placed": placed, "note": text.note}


if __name__ == "__main__":
    _answer_requests()
