"""What commands say of documents that were read, of changes of an index, and of where passages come from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from knowgap.cli.display import remark

if TYPE_CHECKING:
    from knowgap.retrieval.documents.reading import Reading, Update
    from knowgap.retrieval.documents.sources import Source
    from knowgap.retrieval.passage import Passage

_NAMED = 100  # files


def find_sources(retriever: Any, passages: Iterable[Passage], *, lines: bool) -> dict[str, Source]:
    """Where passages come from, by id, as far as the index that found them has recorded it.

    Args:
        retriever: the index.
        passages: what it has found.
        lines: whether to tell the lines of JSON Lines and TSV as well; their ids usually tell enough.
    """
    from knowgap.retrieval.documents.sources import sources_of

    sources = sources_of(retriever)
    found = sources.find(passage.id for passage in passages) if sources is not None else {}
    return {name: source for name, source in found.items() if lines or source.unit != "line"}


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
    """What has changed in an index, in words."""
    if not update.files:
        return f"nothing has changed: {update.kept:,} passages"
    files, added = _counted(update.files, "file"), _counted(update.added, "passage")
    again = "; this engine is built again as a whole:" if update.rebuilt else ""
    return f"{files} changed: {added} added, {update.removed:,} removed, {update.kept:,} kept{again}"
