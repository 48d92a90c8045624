"""Silence what DSPy, tqdm, gepa and Optuna print about their work; users get a progress callback instead."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import tqdm


@contextmanager
def quiet() -> Iterator[None]:
    """Silence log lines, progress bars and prints of these libraries; what others print is untouched."""
    bars, printing = tqdm.tqdm.__init__, ("dspy.teleprompt", "dspy.propose", "gepa")

    def no_bar(self: Any, *args: Any, **options: Any) -> None:
        bars(self, *args, **{**options, "disable": True})

    with ExitStack() as stack:
        stack.enter_context(patch.object(tqdm.tqdm, "__init__", no_bar))
        for logger in map(logging.getLogger, ("dspy", "gepa", "optuna")):
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL)
        for module in [each for name, each in sys.modules.items() if name.startswith(printing)]:
            stack.enter_context(patch.dict(vars(module), {"print": lambda *_, **__: None}))
        yield
