"""Corpora, read as a stream: JSON Lines, Parquet, tables with a header, and folders of documents.

- JSON Lines and Parquet: `{"id": …, "title": …, "text": …}`. `id` may be called `_id` or `docid`, and `text`
  `contents`; `title` may be missing, and a missing id becomes the line number.
- TSV and CSV with a header of these names, as DPR's `psgs_w100.tsv` has.

A folder, or a single file, may hold text, Markdown, HTML, PDF, Office files and other
tables (`knowgap.retrieval.documents`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pydantic import AliasChoices, Field

from knowgap.compiling.data.records import Fields, Id, read_records
from knowgap.errors import DataError
from knowgap.retrieval.documents.reading import Folder, Reading, kind_of, open_folder, read_documents, shown_name
from knowgap.retrieval.documents.splitting import Splitter
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.passage_lines import split_title


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
        UserWarning: for each file of a folder that cannot be read, while the others are.
    """
    path, splitter = Path(path), Splitter()
    folder = document_folder(path)
    if folder is None:
        for _, passage in read_passages(path):
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
    kind = kind_of(path)
    if kind is None or (kind == "CSV" and _names_text(path)):
        return None
    return Folder(path.parent, {shown_name(path.name): path.resolve()})


def _names_text(table: Path) -> bool:
    """Whether a table has a column called `text`, so that its rows are passages."""
    with suppress(DataError):
        return "text" in next(read_records(table)).data
    return False


class _Row(Fields):
    id: Id = Field(default="", validation_alias=AliasChoices("id", "_id", "docid", "pid"))
    title: str = ""
    text: str = Field(default="", validation_alias=AliasChoices("text", "contents"))


def read_passages(path: Path) -> Iterator[tuple[int, Passage]]:
    """Yield line numbers and passages of a file that is no document; errors are those of `read_corpus`."""
    seen: set[str] = set()
    for record in read_records(path):
        row = record.read(_Row)
        id, title, text = row.id or str(record.line), row.title.strip(), row.text.strip()
        if not title and "contents" in record.data:
            title, text = split_title(text)
        if not title and not text:
            raise record.error("is missing or blank, and so is the title", "text")
        if id in seen:
            raise record.error(f"the id {id!r} is used in an earlier line", "id")
        seen.add(id)
        yield record.line, Passage(id, title, text)
