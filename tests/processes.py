"""Processes that begin at once: each is forked from one that has imported what commands and studies need."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import TimeoutExpired

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

    Args:
        words: those after `knowgap`.
        folder: where it runs.
        run_by: what Python was given to run it; further workers of a study are started with the same.
        environment: its variables; this process' own by default.
        output: the file that gets its standard output.
        in_the_background: SIGINT is ignored, as in what a shell that is not interactive starts with `&`.
    """

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        *,
        run_by: Sequence[str] = ("-m", "knowgap"),
        environment: Mapping[str, str] | None = None,
        output: str | Path = os.devnull,
        in_the_background: bool = False,
    ) -> None:
        reading, writing = PROCESSES.Pipe(duplex=False)
        given = dict(os.environ if environment is None else environment)
        streams, on_interrupt = (str(output), writing), signal.SIG_IGN if in_the_background else None
        self._words = [*run_by, *words]
        self._process = PROCESSES.Process(
            target=_run, args=(list(words), list(run_by), str(folder), given, streams, on_interrupt)
        )
        self._process.start()
        writing.close()
        self.pid = self._process.pid or 0
        self.stderr = os.fdopen(os.dup(reading.fileno()), encoding="utf-8")
        reading.close()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise TimeoutExpired(self._words, timeout or 0.0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[None, str]:
        """Wait for its end, and return what it said on standard error since that was last read."""
        if timeout is not None:
            self.wait(timeout)
        said = "" if self.stderr.closed else self.stderr.read()
        self.stderr.close()
        self.wait()
        return None, said


def _run(
    words: list[str],
    run_by: list[str],
    folder: str,
    environment: dict[str, str],
    streams: tuple[str, Connection],
    on_interrupt: signal.Handlers | None,
) -> None:
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    output = os.open(streams[0], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(streams[1].fileno(), 2)
    os.close(output)
    streams[1].close()
    if on_interrupt is not None:
        signal.signal(signal.SIGINT, on_interrupt)
    sys.argv, sys.orig_argv = ["knowgap", *words], [sys.executable, *run_by, *words]
    from knowgap.cli.main import main

    main()
