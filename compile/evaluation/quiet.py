"""Silence what DSPy, tqdm, gepa and Optuna print about their work; users get a progress callback instead."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tqdm


@contextmanager
def quiet() -> Iterator[None]:
    """Silence log lines, progress bars and prints of these libraries; what others print is untouched."""
    loggers = [logging.getLogger(name) for name in ("dspy", "gepa", "optuna")]
    levels, bars = [logger.level for logger in loggers], tqdm.tqdm.__init__

    def silent(self: Any, *args: Any, **options: Any) -> None:
        bars(self, *args, **{**options, "disable": True})

    printing = [
        vars(module)
        for name, module in sys.modules.items()
        if name.startswith(("dspy.teleprompt", "dspy.propose", "gepa"))
    ]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        for names in printing:
            names["print"] = lambda *_, **__: None
        tqdm.tqdm.__init__ = silent
        yield
    finally:
        tqdm.tqdm.__init__ = bars
        for names in printing:
            names.pop("print", None)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
