"""Corpora, read as a stream: JSON Lines, Parquet, tables with a header, and folders of documents.

- JSON Lines and Parquet: `{"id": …, "title": …, "text": …}`. `id` may be called `_id` or `docid`, and `text`
  `contents`; `title` may be missing, and a missing id becomes the line number.
- CSV and TSV with a header, as DPR's `psgs_w100.tsv`: the columns are told by their names (`COLUMNS`).

A folder, or a single file, may hold text, Markdown, HTML, PDF and Office files
(`knowgap.retrieval.documents`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pydantic import AliasChoices, Field

from knowgap.compiling.data.records import Fields, Id, Record, is_table, read_records
from knowgap.errors import DataError
from knowgap.retrieval.documents.reading import Folder, Reading, kind_of, open_folder, read_documents, shown_name
from knowgap.retrieval.documents.splitting import Splitter
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.passage_lines import split_title

COLUMNS = {
    "id": ("id", "_id", "docid", "pid"),
    "title": ("title", "name", "heading", "subject", "question"),
    "text": ("text", "contents", "content", "body", "passage", "description", "abstract", "answer"),
}
"""The parts of a passage, each with the column names that are taken for it, the most certain first."""


def read_corpus(path: str | Path, *, split: bool = False) -> Iterator[Passage]:
    """Yield the passages of a corpus.

    Args:
        path: a file or a folder; of a file of passages, only the ids are kept in memory.
        split: whether long texts of a file of passages are split, as documents always are; a part of the document
            `orle` has an id such as `orle#0123456789`. The length of a passage is measured in tokens of the embedded
            encoder.

    Raises:
        DataError: naming file, line and field: not UTF-8, not JSON, a field missing, blank or of a wrong type, a
            repeated id, a row with too few or too many columns; or a file or folder without passages.

    Warns:
        UserWarning: for each file of a folder that cannot be read, while the others are; for columns that were guessed.
    """
    path, splitter = Path(path), Splitter()
    folder = document_folder(path)
    if folder is None:
        for _, passage in read_passages(path, lambda note: warnings.warn(f"{path.name}: {note}", stacklevel=3)):
            yield from splitter.split_passage(passage) if split else [passage]
        return
    reading = Reading()
    for file in read_documents(folder, splitter, reading):
        yield from (passage for passage, _ in file.placed or ())
    for name, problem in reading.problems.items():
        warnings.warn(f"{name}: {problem}; left out", stacklevel=2)
    if not reading.documents:
        raise DataError("holds no documents that can be read", path=path)


def document_folder(path: Path) -> Folder | None:
    """The documents in a folder, or a file that is a document; None for a file of passages."""
    if path.is_dir():
        folder = open_folder(path)
        if not folder.files:
            kinds = ", ".join(f"{count} {reason}" for reason, count in (+folder.left_out).items()) or "it is empty"
            raise DataError(f"holds no documents of a known kind ({kinds})", path=path)
        return folder
    if kind_of(path) in (None, "CSV"):
        return None
    return Folder(path.parent, {shown_name(path.name): path.resolve()})


def read_passages(path: Path, note: Callable[[str], None] | None = None) -> Iterator[tuple[int, Passage]]:
    """Yield line numbers and passages of a file of JSON Lines, Parquet, TSV or CSV; errors are those of `read_corpus`.

    `note` is called with a text that says which columns of a table were taken, unless they are called `id`, `title` and
    `text`.
    """
    seen: set[str] = set()
    chosen: dict[str, str] = {}
    for record in read_records(path):
        if not is_table(path):
            passage = _from_fields(record)
        else:
            if not seen:
                chosen = _choose_columns(record)
                others = [name for name in record.data if name not in chosen.values()]
                if note is not None and (others or any(part != name for part, name in chosen.items())):
                    note(_said(chosen, others))
            passage = _from_row(record, chosen)
        if not passage.title and not passage.text:
            raise record.error("is blank, and so is the title", chosen.get("text", "text"))
        if passage.id in seen:
            raise record.error(f"the id {passage.id!r} is used in an earlier line", "id")
        seen.add(passage.id)
        yield record.line, passage


class _Row(Fields):
    id: Id = Field(default="", validation_alias=AliasChoices("id", "_id", "docid"))
    title: str = ""
    text: str = Field(validation_alias=AliasChoices("text", "contents"))


def _from_fields(record: Record) -> Passage:
    row = record.read(_Row)
    title, text = row.title.strip(), row.text.strip()
    if not title and "contents" in record.data:
        title, text = split_title(text)
    return Passage(id=row.id or str(record.line), title=title, text=text)


def _from_row(record: Record, chosen: Mapping[str, str]) -> Passage:
    """A row of a table as a passage; without a column of texts, its text is every other column, with its name."""
    row = {part: str(record.data[name]).strip() for part, name in chosen.items()}
    if "text" not in chosen:
        values = ((name, str(value).strip()) for name, value in record.data.items() if name not in chosen.values())
        row["text"] = "\n".join(f"{name}: {value}" for name, value in values if value)
    return Passage(row.get("id") or str(record.line), row.get("title", ""), row["text"])


def _choose_columns(record: Record) -> dict[str, str]:
    """The column of each part of a passage that has one."""
    named = {part: [name for name in known if name in record.data] for part, known in COLUMNS.items()}
    chosen = {part: names[0] for part, names in named.items() if names}
    if "text" not in chosen and record.path.suffix.lower() == ".tsv":
        raise record.error("the first line must name the columns, one of them text, as in id<TAB>text<TAB>title")
    return chosen


def _said(chosen: Mapping[str, str], others: list[str]) -> str:
    """Say which columns were taken and which were not."""
    parts = [f"{part} is {name}" for part, name in chosen.items()]
    if "text" not in chosen:
        return f"columns: {', '.join([*parts, 'text is every other column, with its name'])}"
    unread = f"; not read: {', '.join(others)}" if others else ""
    return f"columns: {', '.join(parts)}{unread}"
