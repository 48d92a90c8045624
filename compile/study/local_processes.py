"""More workers for a study on this machine: the same command again, in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from knowgap.errors import UsageError

__all__ = ["COMPANION", "companions", "is_companion"]

COMPANION = "KNOWGAP_COMPANION"
"""The environment variable by which a process knows that it only helps with the trials."""

_PATIENCE_SECONDS = 30
_MESSAGE = "error:"


def is_companion() -> bool:
    """Whether this process only helps with the trials: what comes after them is left to the one that began it."""
    return os.environ.get(COMPANION) == "1"


@contextmanager
def companions(count: int, command: Sequence[str] | None = None) -> Iterator[list[str]]:
    """Let so many more processes run the same command while the body runs.

    They share the study through its storage, which therefore has to be a file or a server, and end with it. When the
    body fails, they are told to end; when this process is killed, they finish the study. A companion has none itself.

    Args:
        count: how many; 0 for none.
        command: what they run; this process' own command line where absent.

    Yields:
        A list that says, after the body, what went wrong in them: the last words of each that failed.

    Raises:
        UsageError: `count` is negative.
    """
    if count < 0:
        raise UsageError(f"{count} more workers: there cannot be fewer than none")
    words = list(command) if command is not None else [sys.executable, *sys.orig_argv[1:]]
    problems: list[str] = []
    with ExitStack() as stack:
        started = []
        for _ in range(0 if is_companion() else count):
            errors = stack.enter_context(tempfile.TemporaryFile())
            environment = {**os.environ, COMPANION: "1"}
            process = subprocess.Popen(
                words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
            )
            started.append((process, errors))
        finished = False
        try:
            yield problems
            finished = True
        finally:
            for process, errors in started:
                _end(process, _PATIENCE_SECONDS if finished else 0)
                if finished and process.returncode:
                    errors.seek(0)
                    problems.append(_last_words(errors.read().decode(errors="replace"), process.returncode))


def _last_words(text: str, code: int) -> str:
    """What a process that failed said last: a message of the command line from its beginning, else the last line."""
    lines = text.strip().splitlines()
    if code < 0 or not lines:
        return f"a worker ended by signal {-code}" if code < 0 else f"a worker ended with code {code}"
    begins = [number for number, line in enumerate(lines) if line.startswith(_MESSAGE)]
    words = " ".join(lines[begins[-1] :]) if begins else lines[-1]
    return words.removeprefix(_MESSAGE).strip()


def _end(process: subprocess.Popen[bytes], patience: float) -> None:
    try:
        process.wait(timeout=patience)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.wait(timeout=_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
