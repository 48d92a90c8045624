"""Processes that begin at once: each is forked from one that has imported what commands and studies need."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    [
        "compile_helpers",
        "knowgap.cli.main",
        "knowgap.compiling.study.run",
        "knowgap.lms.engines",
        "knowgap.retrieval.indexes",
        "knowgap.service",
        "optuna.storages._rdb.storage",
    ]
)


class Command:
    """`knowgap` with these words in a process and a session of its own, with methods that `subprocess.Popen` has.

    `folder` is where it runs; `in_the_background`, it ignores SIGINT, as what a shell that is not interactive starts
    with `&`.
    """

    def __init__(self, words: Sequence[str], folder: Path, *, in_the_background: bool = False) -> None:
        reading, writing = PROCESSES.Pipe(duplex=False)
        on_interrupt = signal.SIG_IGN if in_the_background else signal.default_int_handler
        arguments = (list(words), str(folder), dict(os.environ), writing, on_interrupt)
        self._process = PROCESSES.Process(target=_run, args=arguments)
        self._process.start()
        writing.close()
        self.pid = self._process.pid or 0
        self.stderr = os.fdopen(os.dup(reading.fileno()), encoding="utf-8")
        reading.close()
        self.terminate, self.kill = self._process.terminate, self._process.kill

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise TimeoutExpired("knowgap", timeout or 0.0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[None, str]:
        """Wait for its end, and return what it said on standard error since that was last read."""
        if timeout is not None:
            self.wait(timeout)
        said = "" if self.stderr.closed else self.stderr.read()
        self.stderr.close()
        self.wait()
        return None, said


def _run(words: list[str], folder: str, environment: dict[str, str], said: Connection, on_interrupt: Any) -> None:
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    output = os.open(os.devnull, os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(said.fileno(), 2)
    os.close(output)
    said.close()
    signal.signal(signal.SIGINT, on_interrupt)
    sys.argv = ["knowgap", *words]
    from knowgap.cli.main import main

    main()
