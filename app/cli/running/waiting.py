"""Announcing that a command waits for the language model, when no reply has come for a while."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from knowgap.cli.display import remark, show_wait

_SHOWN_AFTER = 5.0  # seconds without a reply after which a progress bar shows the wait
_SAID_AFTER = 10.0  # seconds without a reply after which a line is printed
_SAID_EVERY = 60.0  # seconds between two such lines


class Announcer:
    """Decides when a wait is announced.

    Args:
        say: prints a line.
        show: shows a text in the progress bar, or none if it is empty; returns False if there is no bar.
    """

    def __init__(self, say: Callable[[str], None] = remark, show: Callable[[str], bool] = show_wait):
        self._say, self._show = say, show
        self._said_at = -_SAID_EVERY

    def look(self, wait: tuple[str, float] | None, now: float) -> None:
        """Announce a wait, given as the model and the seconds since its last reply, if it is long enough."""
        model, seconds = wait or ("", 0.0)
        text = f"waiting for {model} {seconds:.0f} s"
        if self._show(text if seconds >= _SHOWN_AFTER else ""):
            return
        if seconds >= _SAID_AFTER and now - self._said_at >= _SAID_EVERY:
            self._said_at = now
            self._say(text)


class _Remarks(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        remark(self.format(record))


@contextmanager
def saying_what_is_waited_for(*, debug: bool = False) -> Iterator[None]:
    """Announce waits and print the library's log messages while the block runs; with `debug`, all of them.

    DSPy's log line about each reply that was cut off is shown only with `debug`: costs count such replies.
    """
    ended, announcer = threading.Event(), Announcer()

    def watch() -> None:
        while not ended.wait(1.0):
            meter: Any = sys.modules.get("knowgap.lms.metering")  # loaded by the first program
            current_wait = getattr(meter, "current_wait", lambda: None)  # not there while the module is being loaded
            announcer.look(current_wait(), time.monotonic())

    log, dspy_log, handler = logging.getLogger("knowgap"), logging.getLogger("dspy.clients.lm"), _Remarks()
    levels = log.level, dspy_log.level
    if debug:
        log.setLevel(logging.DEBUG)
    else:
        dspy_log.setLevel(logging.ERROR)
    threading.Thread(target=watch, name="knowgap-waiting", daemon=True).start()
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(levels[0])
        dspy_log.setLevel(levels[1])
        ended.set()
