"""Corpora in files: JSON Lines and the two tab-separated layouts in common use, read as a stream.

- JSON Lines: `{"id": …, "title": …, "text": …}`; `_id` or `docid` instead of `id`, and `contents` instead of `text`,
  are understood, `title` may be absent, and an absent id is the line number.
- DPR's `psgs_w100.tsv`: a header `id<TAB>text<TAB>title`, then such rows.
- ColBERT's collection: `pid<TAB>text` or `pid<TAB>text<TAB>title` without a header; a text that begins `Title | `
  brings its title that way.

All of them may be compressed (`.gz`).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from knowgap.compile.data.records import Record, read_json_lines, read_lines
from knowgap.errors import DataError
from knowgap.retrieval.passage import Passage

__all__ = ["read_corpus"]


def read_corpus(path: str | Path) -> Iterator[Passage]:
    """The passages of a corpus file one after another.

    Ids are checked to be unique; they are all that is held in memory.

    Raises:
        DataError: with file, line and field: not UTF-8, not JSON, a field missing, blank or of a wrong type, an id that
            stood before, a row with too few columns, or a file without passages.
    """
    path = Path(path)
    tabular = path.name.removesuffix(".gz").endswith((".tsv", ".txt"))
    seen: set[str] = set()
    for line, passage in _read_tsv(path) if tabular else _read_jsonl(path):
        if passage.id in seen:
            raise DataError(f"the id {passage.id!r} stood in an earlier line", path=path, line=line, field="id")
        seen.add(passage.id)
        yield passage
    if not seen:
        raise DataError("holds no passages", path=path)


def _read_jsonl(path: Path) -> Iterator[tuple[int, Passage]]:
    for record in read_json_lines(path):
        yield record.line, _from_record(record)


def _from_record(record: Record) -> Passage:
    id_field = next((field for field in ("id", "_id", "docid") if field in record.data), None)
    text_field = "contents" if "text" not in record.data and "contents" in record.data else "text"
    title, text = record.get("title", str, "").strip(), record.need(text_field, str).strip()
    if not title and not text:
        raise record.error("is blank, and so is the title", text_field)
    return Passage(id=record.identifier(id_field) if id_field else str(record.line), title=title, text=text)


def _read_tsv(path: Path) -> Iterator[tuple[int, Passage]]:
    quoted = False
    for line, row in read_lines(path):
        if not row.strip():
            continue
        # DPR's rows, under a header, are quoted in the CSV manner; ColBERT's are not, and may hold a quote anywhere.
        in_csv = quoted and '\t"' in row and row.count('"') % 2 == 0
        cells = [cell.strip() for cell in (next(csv.reader([row], delimiter="\t")) if in_csv else row.split("\t"))]
        if line == 1 and cells[:2] in (["id", "text"], ["pid", "text"], ["pid", "passage"]):
            quoted = True
            continue
        if len(cells) < 2 or len(cells) > 3:
            wanted = "must be id<TAB>text or id<TAB>text<TAB>title"
            raise DataError(f"{wanted}, has {len(cells)} columns", path=path, line=line)
        id, text, title = cells[0], cells[1], cells[2] if len(cells) == 3 else ""
        if not title and 0 < text.find(" | ") <= 200:
            title, _, text = text.partition(" | ")
        for field, value in (("id", id), ("text", text or title)):
            if not value:
                raise DataError("is blank", path=path, line=line, field=field)
        yield line, Passage(id=id, title=title, text=text)
