"""Ctrl-C ends a command within two seconds, and no call to a language model or an index begins after it.

The main thread gets a `KeyboardInterrupt`, as usual, and ends. It may be kept from that by code that does not handle
signals, or by a thread that waits for a reply. Therefore another thread is told of the signal as well. It cancels all
questions, and after a moment it ends the process. Nothing is lost, since commands write their results in such a way
that they can be killed at any time.
"""

from __future__ import annotations

import os
import signal
import socket
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


def leave_ctrl_c_to_the_server() -> None:
    """Let a server that handles signals itself end by its own rules."""
    if threading.current_thread() is threading.main_thread():
        signal.set_wakeup_fd(-1)


@contextmanager
def stopping_soon() -> Iterator[None]:
    """Let Ctrl-C end this process, which runs one command in the block, in its main thread.

    A second Ctrl-C changes nothing. If SIGINT is ignored, as in a background job of a shell, it stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        try:
            yield
        except EndedAtOnce as end:
            _end(end.code)
        return
    told, listening = socket.socketpair()
    told.setblocking(False)
    threading.Thread(target=_end_after, args=(listening,), name="knowgap-stop", daemon=True).start()
    signal.signal(signal.SIGINT, _interrupt)
    signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
    try:
        yield
    except SystemExit as end:
        if end.code == STOPPED or isinstance(end, EndedAtOnce):  # a normal exit would wait for the threads
            _end(end.code)
        raise
    finally:
        with suppress(ValueError, OSError):
            signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        told.close()


def _interrupt(*_: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _end_after(listening: socket.socket) -> None:
    """Wait for SIGINT, cancel all questions, and end the process if the main thread has not done so in time."""
    while received := listening.recv(1):
        if received[0] == signal.SIGINT:
            stop_all_calls()
            threading.Event().wait(_GRACE)
            say_stopped()
            _end(STOPPED)


def _end(code: Any) -> None:
    with suppress(OSError, ValueError):
        err.show_cursor(True)
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
