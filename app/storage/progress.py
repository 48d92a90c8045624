"""The callback with which long work reports its progress."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A callback that long work calls as it goes on."""

    def __call__(self, done: int, total: int, what: str, /) -> None:
        """`done` of `total` units of the step named `what` are finished."""
        ...


def no_progress(done: int, total: int, what: str) -> None:
    """A `Progress` that does nothing."""
