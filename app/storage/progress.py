"""The callback with which long work reports its progress."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Progress(Protocol):
    """A callback that long work calls as it goes on."""

    def __call__(self, done: int, total: int, what: str, /) -> None:
        """`done` of `total` units of the step named `what` are finished."""
        ...


def no_progress(done: int, total: int, what: str) -> None:
    """A `Progress` that does nothing."""


def part_of(progress: Progress | None, before: int, total: int, name: str) -> Progress | None:
    """Report the progress of a part as that of the whole: `total` units, of which `before` precede the part."""
    if progress is None:
        return None
    return lambda done, _, what: progress(before + done, total, f"{name}: {what}")
