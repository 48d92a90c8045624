"""Corpora, read as a stream: JSON Lines, CSV, the two tab-separated layouts in common use, and folders of documents.

- JSON Lines: `{"id": …, "title": …, "text": …}`. `id` may be called `_id` or `docid`, and `text` `contents`; `title`
  may be missing, and a missing id becomes the line number.
- DPR's `psgs_w100.tsv`: a header `id<TAB>text<TAB>title`, then such rows.
- CSV with a header: columns `id`, `title` and `text`, other names for these, or those that are named
  (`knowgap.compiling.data.tables`).
- ColBERT's collection: `pid<TAB>text` or `pid<TAB>text<TAB>title` without a header; without the third column, a text
  that begins with `Title | ` has that title.

All may be compressed (`.gz`). A folder, or a single file, may hold text, Markdown, HTML, PDF and Office files
(`knowgap.retrieval.documents`).
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field

from knowgap.compiling.data.records import Fields, Id, read_lines, read_records
from knowgap.compiling.data.tables import read_csv
from knowgap.errors import DataError
from knowgap.retrieval.documents.reading import Folder, Reading, kind_of, open_folder, read_documents, shown_name
from knowgap.retrieval.documents.splitting import Splitter
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.passage_lines import split_title

Split = Literal["auto", "never"]
"""Whether long texts of JSON Lines and TSV are split into passages; documents of other kinds always are."""


def read_corpus(path: str | Path, *, split: Split = "never") -> Iterator[Passage]:
    """Yield the passages of a corpus.

    Args:
        path: a file or a folder; of a file of JSON Lines or TSV, only the ids are kept in memory.
        split: `auto` splits the long texts of JSON Lines and TSV as well; a part of the document `orle` has an id such
            as `orle#0123456789`. The length of a passage is measured in tokens of the embedded encoder.

    Raises:
        DataError: naming file, line and field: not UTF-8, not JSON, a field missing, blank or of a wrong type, a
            repeated id, a row with too few or too many columns; or a file or folder without passages.

    Warns:
        UserWarning: for each file of a folder that cannot be read; the others are.
    """
    path, splitter = Path(path), Splitter()
    folder = document_folder(path)
    if folder is None:
        for _, passage in read_corpus_lines(
            path, note=lambda note: warnings.warn(f"{path.name}: {note}", stacklevel=3)
        ):
            yield from [passage] if split == "never" else (piece.passage for piece in splitter.split_passage(passage))
        return
    reading = Reading()
    for file in read_documents(folder, splitter, reading):
        yield from (passage for passage, _ in file.placed or ())
    for name, problem in reading.problems.items():
        warnings.warn(f"{name}: {problem}; left out", stacklevel=2)
    if not reading.documents:
        raise DataError("holds no documents that can be read", path=path)


def document_folder(path: Path) -> Folder | None:
    """The documents in a folder, or a file that is a document; None for a file of JSON Lines, TSV or CSV."""
    if path.is_dir():
        folder = open_folder(path)
        if not folder.files:
            kinds = ", ".join(f"{count} {reason}" for reason, count in (+folder.left_out).items()) or "it is empty"
            raise DataError(f"holds no documents of a known kind ({kinds})", path=path)
        return folder
    if kind_of(path) in (None, "CSV") or (path.suffix.lower() == ".txt" and _is_tabular(path)):
        return None
    return Folder(path.parent, {shown_name(path.name): path.resolve()})


def _is_tabular(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return b"\t" in file.readline(1 << 16)
    except OSError:
        return True


def read_corpus_lines(
    path: Path, columns: Mapping[str, str] | None = None, note: Callable[[str], None] | None = None
) -> Iterator[tuple[int, Passage]]:
    """Yield line numbers and passages of a file of JSON Lines, TSV or CSV; errors are those of `read_corpus`.

    Args:
        path: the file.
        columns: the columns of a CSV file that are `id`, `title` and `text`; those not given are found by their names.
        note: called with a text that says which columns were taken, if they were not given, and which were not read.
    """
    name = path.name.removesuffix(".gz").lower()
    rows = _read_tsv(path) if name.endswith((".tsv", ".txt")) else _read_jsonl(path)
    if name.endswith(".csv"):
        rows = read_csv(path, columns or {}, note)
    seen: set[str] = set()
    for line, passage in rows:
        if passage.id in seen:
            raise DataError(f"the id {passage.id!r} is used in an earlier line", path=path, line=line, field="id")
        seen.add(passage.id)
        yield line, passage
    if not seen:
        raise DataError("holds no passages", path=path)


class _Row(Fields):
    id: Id = Field(default="", validation_alias=AliasChoices("id", "_id", "docid"))
    title: str = ""
    text: str = Field(validation_alias=AliasChoices("text", "contents"))


def _read_jsonl(path: Path) -> Iterator[tuple[int, Passage]]:
    for record in read_records(path):
        row = record.read(_Row)
        title, text = row.title.strip(), row.text.strip()
        if not title and "contents" in record.data:
            title, text = split_title(text)
        if not title and not text:
            raise record.error("is blank, and so is the title", "text")
        yield record.line, Passage(id=row.id or str(record.line), title=title, text=text)


def _read_tsv(path: Path) -> Iterator[tuple[int, Passage]]:
    quoted = False
    for line, row in read_lines(path):
        if not row.strip():
            continue
        # DPR's rows, under a header, are quoted as CSV is; ColBERT's are not, and may have a quote anywhere.
        in_csv = quoted and '\t"' in row and row.count('"') % 2 == 0
        cells = [cell.strip() for cell in (next(csv.reader([row], delimiter="\t")) if in_csv else row.split("\t"))]
        if line == 1 and cells[:2] in (["id", "text"], ["pid", "text"], ["pid", "passage"]):
            quoted = True
            continue
        if len(cells) < 2 or len(cells) > 3:
            expected = "must be id<TAB>text or id<TAB>text<TAB>title"
            raise DataError(f"{expected}, but has {len(cells)} columns", path=path, line=line)
        id, text, title = cells[0], cells[1], cells[2] if len(cells) == 3 else ""
        if not title and 0 < text.find(" | ") <= 200:
            title, _, text = text.partition(" | ")
        for field, value in (("id", id), ("text", text or title)):
            if not value:
                raise DataError("is blank", path=path, line=line, field=field)
        yield line, Passage(id=id, title=title, text=text)
