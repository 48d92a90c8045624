"""Corpus files, read as a stream: JSON Lines and the two tab-separated layouts in common use.

- JSON Lines: `{"id": …, "title": …, "text": …}`. `id` may be called `_id` or `docid`, and `text` `contents`; `title`
  may be missing, and a missing id becomes the line number.
- DPR's `psgs_w100.tsv`: a header `id<TAB>text<TAB>title`, then such rows.
- ColBERT's collection: `pid<TAB>text` or `pid<TAB>text<TAB>title` without a header; without the third column, a text
  that begins with `Title | ` has that title.

All may be compressed (`.gz`).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from knowgap.arguments import checked
from knowgap.compile.data.records import read_json_lines, read_lines
from knowgap.errors import DataError
from knowgap.retrieval.passage import Passage

__all__ = ["read_corpus"]


@checked
def read_corpus(path: str | Path) -> Iterator[Passage]:
    """Yield the passages of a corpus file; only their ids are kept in memory.

    Raises:
        DataError: naming file, line and field: not UTF-8, not JSON, a field missing, blank or of a wrong type, a
            repeated id, a row with too few or too many columns, or a file without passages.
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
        id_field = next((field for field in ("id", "_id", "docid") if field in record.data), None)
        text_field = "contents" if "text" not in record.data and "contents" in record.data else "text"
        title, text = record.get("title", str, "").strip(), record.need(text_field, str).strip()
        if not title and not text:
            raise record.error("is blank, and so is the title", text_field)
        id = record.identifier(id_field) if id_field else str(record.line)
        yield record.line, Passage(id=id, title=title, text=text)


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
            raise DataError(f"{expected}, has {len(cells)} columns", path=path, line=line)
        id, text, title = cells[0], cells[1], cells[2] if len(cells) == 3 else ""
        if not title and 0 < text.find(" | ") <= 200:
            title, _, text = text.partition(" | ")
        for field, value in (("id", id), ("text", text or title)):
            if not value:
                raise DataError("is blank", path=path, line=line, field=field)
        yield line, Passage(id=id, title=title, text=text)
