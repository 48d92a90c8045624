"""Messages of commands about documents that were read, and about changes to an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowgap.cli.display import remark

if TYPE_CHECKING:
    from knowgap.retrieval.documents.reading import Reading, Update

_NAMED = 100  # the most files that are named


def show_reading(reading: Reading) -> None:
    """Say which files were read, which were left out and why, and how many documents were split."""
    said = [f"{name}: {text}; left out" for name, text in reading.problems.items()]
    said += [f"{name}: {text}" for name, text in reading.notes.items()]
    for line in said[:_NAMED]:
        remark(line)
    if len(said) > _NAMED:
        remark(f"and {len(said) - _NAMED:,} more files")
    if left_out := [f"{count} {reason}" for reason, count in sorted(reading.left_out.items()) if count]:
        remark(f"left out: {', '.join(left_out)}")
    if reading.problems:
        remark(f"{_counted(len(reading.problems), 'file')} could not be read")
    if kinds := [f"{count} {kind}" for kind, count in sorted(reading.kinds.items())]:
        remark(f"files read: {', '.join(kinds)}")
    if reading.split:
        remark(f"{reading.split:,} of {reading.documents:,} documents were split into {reading.parts:,} passages")


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def said_of_update(update: Update) -> str:
    """Describe the changes to an index."""
    if not update.files:
        return f"nothing has changed: {update.kept:,} passages"
    files, added = _counted(update.files, "file"), _counted(update.added, "passage")
    return f"{files} changed: {added} added, {update.removed:,} removed, {update.kept:,} kept"
