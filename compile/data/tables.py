"""Read passages from tables (CSV), whose columns are found by their names or named by the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from knowgap.compiling.data.records import read_records
from knowgap.errors import UnknownName, UsageError
from knowgap.retrieval.passage import Passage

PASSAGE_COLUMNS = {
    "id": ("id", "_id", "docid"),
    "title": ("title", "name", "heading", "subject", "question"),
    "text": ("text", "contents", "content", "body", "passage", "description", "abstract", "answer"),
}
"""The parts of a passage, each with the column names that are taken for it, the most certain first."""

_EVERY = "every other column, with its name"


def read_csv(
    path: Path, columns: Mapping[str, str], note: Callable[[str], None] | None = None
) -> Iterator[tuple[int, Passage]]:
    """Yield line numbers and passages of a table with a header, one for each row.

    If no column is the text, the text is made of all columns that are neither id nor title, as lines `name: value`.

    Args:
        path: the file; see `read_records`.
        columns: part of a passage (`id`, `title`, `text`) → name of a column, in upper or lower case.
        note: called with a text that says which columns were taken, unless they are called `id`, `title` and `text`.

    Raises:
        UnknownName: there is no such part, or no such column.
        DataError: a row has neither title nor text, or the file cannot be read.
    """
    chosen: dict[str, str] = {}
    others: list[str] = []
    for record in read_records(path):
        if not chosen and not others:
            chosen = choose_columns(record.data, columns)
            others = [name for name in record.data if name not in chosen.values()]
            if note is not None and (said := _said(chosen, others)):
                note(said)
        row = {part: str(record.data[name]).strip() for part, name in chosen.items()}
        if "text" not in chosen:
            values = ((name, str(record.data[name]).strip()) for name in others)
            row["text"] = "\n".join(f"{name}: {value}" for name, value in values if value)
        passage = Passage(row.get("id") or str(record.line), row.get("title", ""), row["text"])
        if not passage.title and not passage.text:
            raise record.error("is blank, and so is the title", chosen.get("text", "text"))
        yield record.line, passage


def choose_columns(header: Iterable[str], columns: Mapping[str, str]) -> dict[str, str]:
    """The column of each part of a passage that has one: the one in `columns`, else a name of `PASSAGE_COLUMNS`."""
    names = [*header]
    chosen: dict[str, str] = {}
    for part, column in columns.items():
        if part not in PASSAGE_COLUMNS:
            raise UnknownName.among("part of a passage", part, PASSAGE_COLUMNS)
        if column.strip().lower() not in names:
            raise UnknownName.among("column", column.lower(), names)
        chosen[part] = column.strip().lower()
    if len({*chosen.values()}) < len(chosen):
        raise UsageError(f"the same column is named for two parts: {', '.join(f'{p}={c}' for p, c in chosen.items())}")
    for part, known in PASSAGE_COLUMNS.items():
        free = [name for name in known if name in names and name not in chosen.values()]
        if part not in chosen and free:
            chosen[part] = free[0]
    return chosen


def _said(chosen: Mapping[str, str], others: list[str]) -> str:
    """Say which columns were taken and which were not; empty if all columns are called `id`, `title` or `text`."""
    if not others and all(part == name for part, name in chosen.items()):
        return ""
    parts = [f"{part} is {name}" for part, name in chosen.items()]
    if "text" not in chosen:
        return f"columns: {', '.join([*parts, f'text is {_EVERY}'])}; --column text=NAME names one"
    unread = f"; not read: {', '.join(others)}" if others else ""
    return f"columns: {', '.join(parts)}{unread}; --column NAME=COLUMN names others"
