"""Ctrl-C: a command ends within seconds, though its threads may wait minutes for a language model.

The first Ctrl-C cancels all questions, and ends the process after a moment if the main thread has not ended it. Nothing
is lost, since commands write their results in such a way that they can be killed at any time.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from knowgap.cli.display import err
from knowgap.lms.cancelling import stop_all_calls

STOPPED = 130
"""The exit code of a command that Ctrl-C stopped."""

_GRACE = 1.2  # seconds that the main thread has to end by itself
_said = threading.Lock()


class EndedAtOnce(SystemExit):
    """Ends this process without waiting for its threads, which may wait for a language model for minutes."""


def say_stopped() -> None:
    """Say once, in one line, how to go on."""
    if _said.acquire(blocking=False):
        err.print("stopped; what was done is kept, and the same command continues it")


@contextmanager
def stopping_soon() -> Iterator[None]:
    """Let Ctrl-C end this process, which runs one command in the block, in its main thread.

    If SIGINT is ignored, as in a background job of a shell, it stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    except SystemExit as end:
        if end.code == STOPPED or isinstance(end, EndedAtOnce):  # a normal exit would wait for the threads
            _end(end.code)
        raise


def _interrupt(*_: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop_all_calls()
    late = threading.Timer(_GRACE, lambda: (say_stopped(), _end(STOPPED)))
    late.daemon = True
    late.start()
    raise KeyboardInterrupt


def _end(code: Any) -> None:
    with suppress(OSError, ValueError):
        err.show_cursor(True)
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
