"""More workers for a study on this machine: further processes that run the same command."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

LOCAL_WORKER = "KNOWGAP_LOCAL_WORKER"
"""The environment variable that tells a process that it was started by `local_workers`."""

_SECONDS_TO_END = 30


def is_local_worker() -> bool:
    """Whether this process was started by `local_workers`, and therefore only runs trials."""
    return os.environ.get(LOCAL_WORKER) == "1"


@contextmanager
def local_workers(count: int, command: Sequence[str] | None = None) -> Iterator[list[str]]:
    """Run `count` more processes of the same command beside the body.

    They share the study through its storage, which has to be a file or a server. After the body, they are waited for:
    each finishes the trial that it runs. When the body fails, they are terminated. When this process is killed, they
    finish the study. A process that `local_workers` started starts none itself.

    Yields:
        A list of error messages, one for each process that failed; it is filled after the body.
    """
    command = command or [sys.executable, *sys.orig_argv[1:]]
    problems: list[str] = []
    with ExitStack() as stack:
        started = []
        for _ in range(0 if is_local_worker() else count):
            errors = stack.enter_context(tempfile.TemporaryFile())
            environment, null = {**os.environ, LOCAL_WORKER: "1"}, subprocess.DEVNULL
            process = subprocess.Popen(command, env=environment, stdin=null, stdout=null, stderr=errors)
            stack.callback(_terminate, process)
            started.append((process, errors))
        yield problems
        for process, errors in started:
            if code := process.wait():
                errors.seek(0)
                text = "\n" + errors.read().decode(errors="replace").strip()
                _, found, message = text.rpartition("\nerror:")
                words = (message if found else text.splitlines()[-1]).split()
                problems.append(" ".join(words) or f"a worker ended with code {code}")


def _terminate(process: subprocess.Popen[bytes]) -> None:
    process.terminate()  # does nothing if it ended
    try:
        process.wait(timeout=_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
