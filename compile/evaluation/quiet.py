"""Silence what DSPy, tqdm, gepa and Optuna print about their work; users get a progress callback instead."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

_CHATTY = ("dspy", "tqdm", "gepa", "optuna")


class _Sieve:
    """A stream that drops what the chatty libraries write and passes on everything else."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        writer = sys._getframe(1).f_globals.get("__name__", "")
        return len(text) if writer.partition(".")[0] in _CHATTY else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence prints, progress bars and log lines of DSPy, tqdm, gepa and Optuna; everything else is untouched."""
    loggers = [logging.getLogger(name) for name in _CHATTY]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with redirect_stdout(cast("TextIO", _Sieve(sys.stdout))), redirect_stderr(cast("TextIO", _Sieve(sys.stderr))):
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
