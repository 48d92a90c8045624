"""Corpora, read as a stream: JSON Lines, Parquet, tables with a header, and folders of documents.

- JSON Lines and Parquet: `{"id": …, "title": …, "text": …}`. `id` may be called `_id` or `docid`, and `text`
  `contents`; `title` may be missing, and a missing id becomes the line number.
- TSV and CSV with a header of these names, as DPR's `psgs_w100.tsv` has.

A folder, or a single file, may hold text, Markdown, HTML, PDF, Office files and other
tables (`knowgap.retrieval.documents`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from knowgap.compiling.data.records import read_records
from knowgap.errors import DataError
from knowgap.retrieval.documents.reading import ReadFile, Reading, find_files, kind_of, read_documents, shown_name
from knowgap.retrieval.documents.sources import FileRecord, Source
from knowgap.retrieval.documents.splitting import Splitter
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.passage_lines import IDS, passage_of
from knowgap.storage.files import file_digest
from knowgap.storage.progress import Progress, no_progress


def read_corpus(path: str | Path, *, split: bool = False) -> Iterator[Passage]:
    """Yield the passages of a corpus.

    Args:
        path: a file or a folder; of a file of passages, only the ids are kept in memory.
        split: whether texts of a file of passages are split that are longer than the embedded encoder reads, as
            documents always are; a part of the document `orle` has an id such as `orle#0123456789`.

    Raises:
        DataError: naming file, line and field: not UTF-8, not JSON, a field missing, blank or of a wrong type, a
            repeated id, a row with too few or too many columns; or a file or folder without passages.

    Warns:
        UserWarning: for each file of a folder that cannot be read, while the others are.
    """
    reading = Reading()
    for file in read_source(Path(path), Splitter(), reading, split=split):
        yield from (passage for passage, _ in file.placed or ())
    warn_of(reading)


def warn_of(reading: Reading) -> None:
    """Warn of each file that could not be read, so that no answer comes from it."""
    for name, problem in reading.problems.items():
        warnings.warn(f"{name}: {problem}; left out", stacklevel=3)


def read_source(
    path: Path,
    splitter: Splitter,
    reading: Reading,
    known: Mapping[str, FileRecord] | None = None,
    progress: Progress = no_progress,
    *,
    split: bool = True,
) -> Iterator[ReadFile]:
    """The files of a folder of documents, or a document, or a file of passages; see `read_documents`.

    Raises:
        DataError: as for `read_corpus`.
    """
    known, kind, name = known or {}, kind_of(path), shown_name(path.name)
    if path.is_dir():
        files = find_files(path, reading)
    elif kind is None or not path.exists() or (kind == "CSV" and _names_text(path)):
        record = FileRecord(file_digest(path) if path.is_file() else None)
        parts = _passages(path, name, splitter if split else None, reading)
        yield ReadFile(name, record, None if known.get(name) == record else parts)
        return
    else:
        files = {name: path.resolve()}
    yield from read_documents(files, splitter, reading, known, progress)
    if not files or not (known or reading.documents):
        why = [f"{count} {reason}" for reason, count in reading.left_out.items()]
        why += [f"{name}: {problem}" for name, problem in reading.problems.items()][:1]
        raise DataError(f"holds no documents that can be read ({', '.join(why) or 'it is empty'})", path=path)


def _names_text(table: Path) -> bool:
    """Whether a table has a column called `text`, so that its rows are passages."""
    with suppress(DataError):
        return "text" in next(read_records(table)).data
    return False


def _passages(path: Path, name: str, splitter: Splitter | None, reading: Reading) -> Iterator[tuple[Passage, Source]]:
    """The passages of a file that is no document, with their lines; the splitter splits those that are too long."""
    seen: set[str] = set()
    for record in read_records(path):
        line, ids = record.line, [record.data[name] for name in IDS if record.data.get(name) not in (None, "")]
        try:
            found = passage_of(ids[0] if ids else line, record.data)
        except ValueError as error:
            raise record.lacks("text") from error
        passage = Passage(found.id, found.title.strip(), found.text.strip())
        if not passage.title and not passage.text:
            raise record.error("is blank, and so is the title", "text")
        if passage.id in seen:
            raise record.error(f"the id {passage.id!r} is used in an earlier line", "id")
        seen.add(passage.id)
        reading.documents += 1
        for part in [passage] if splitter is None else splitter.split_passage(passage):
            yield part, Source(name, "line", line, line)
