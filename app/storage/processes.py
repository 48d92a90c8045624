"""Processes that train together, as `accelerate launch` starts them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

_LONGEST_WAIT = timedelta(days=30)  # a teacher may label for days while the other processes wait


def process_count() -> int:
    """How many processes train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main_process() -> bool:
    """Whether this process is the one that writes files, of those that train together."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def main_process_first() -> Iterator[None]:
    """Run the block in the first process alone, and then in the others, which find what it has written."""
    if process_count() == 1:
        yield
        return
    import torch
    from accelerate import PartialState

    with PartialState(cpu=not torch.accelerator.is_available(), timeout=_LONGEST_WAIT).main_process_first():
        yield
