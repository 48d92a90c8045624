"""Build an index of documents, and update it when the documents have changed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from knowgap.compiling.data.corpus import document_folder, read_passages
from knowgap.compiling.data.dataset import Dataset
from knowgap.errors import DataError, IndexFolderError, UsageError
from knowgap.retrieval.documents.reading import (
    ReadFile,
    Reading,
    Update,
    open_folder,
    read_documents,
    shown_name,
)
from knowgap.retrieval.documents.sources import FileRecord, Source, Sources, batches, passage_digest
from knowgap.retrieval.documents.splitting import PASSAGE_TOKENS, Splitter
from knowgap.retrieval.index import NEW_INDEX
from knowgap.retrieval.index.build import lock_index
from knowgap.retrieval.index.engines import engine_class, open_index
from knowgap.retrieval.passage import Passage, Retriever
from knowgap.storage.files import file_digest
from knowgap.storage.progress import Progress, no_progress

_AT_ONCE = 512  # passages
_REPORTED = 10_000  # passages
_MERGED_FROM = 0.2  # if more than this share of an index's passages is changed at once, its segments are merged


def build_index(
    source: str | Path | Dataset | Iterable[Passage],
    folder: str | Path,
    *,
    engine: str | None = None,
    passage_tokens: int = PASSAGE_TOKENS,
    overwrite: bool = False,
    reading: Reading | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Retriever:
    """Build an index, or update an existing one where its documents have changed.

    The ids of passages depend only on their own document. A passage that is the same as before is not encoded again:
    An index is changed in place, except for a `plaid` one, which has to be built again. Files are compared by their
    digests, and only those that have changed are read. A file that has become unreadable keeps the
    passages that it had.

    Args:
        source: a folder of documents, one document, or a file of JSON Lines, TSV or CSV; a data set; or passages. The
            passages of the last two are indexed as they are.
        folder: the folder of the index.
        engine: a key of `ENGINES`; None for the engine of the existing index, or `hybrid`.
        passage_tokens: the most tokens of a passage, which never has more than the encoder reads. A longer text is
            split.
        overwrite: replace another index in the folder.
        reading: filled with what was read, left out, unreadable and split, and with what has changed.
        progress: called now and then.
        **options: arguments of the engine's `build`.

    Raises:
        DataError: the source cannot be read, or has nothing that can be indexed.
        UsageError: another index is in the folder.
        IndexFolderError: another process is building or changing the index.
        KnowgapError: what the engine's `build` and `open` raise.

    >>> import knowgap
    >>> index = knowgap.build_index([knowgap.Passage("orle", "Orle", "A town on the Isk.")], "my-index", engine="bm25")
    >>> len(index)
    1
    """
    folder, report = Path(folder), progress or no_progress
    if not isinstance(source, (str, Path)):
        passages = source.corpus if isinstance(source, Dataset) else source
        build = engine_class(engine or NEW_INDEX).build
        return build(_counted(passages, report), folder, overwrite=overwrite, progress=progress, **options)
    source, reading = Path(source), Reading() if reading is None else reading
    with lock_index(folder):
        old = None if overwrite else Sources.of_index(folder)
        made_with = old.settings() if old is not None else {}
        engine_name: str = engine or made_with.get("engine") or NEW_INDEX
        settings: dict[str, Any] = {
            "engine": engine_name,
            "passage_tokens": passage_tokens,
            "corpus": str(source.resolve()),
            "options": json.loads(json.dumps(options, default=lambda value: getattr(value, "__name__", str(value)))),
        }
        window = engine_class(engine_name).window_of(options.get("encoder"))
        splitter = Splitter(window, passage_tokens)
        if old is not None:
            _check_same(folder, made_with, settings)
        beside = Sources.create(folder.with_name(f".{folder.name}.sources"), settings)
        try:
            changes = _Changes(old, beside)
            files = _files(source, splitter, reading, changes.known, report)
            passages = changes.follow(files)
            build = engine_class(engine_name).build
            if old is None:
                some = _at_least_one(_counted(passages, report), source, reading)
                index: Any = build(some, folder, overwrite=overwrite, progress=progress, **options)
            else:
                new = list(passages)
                named = {name: value for name, value in options.items() if name in ("encoder", "url")}
                index = open_index(folder, engine=engine_name, **named)
                if changes.any and not hasattr(index, "add"):
                    raise UsageError(f"{folder}: documents have changed; build {engine_name} again (--overwrite)")
                if changes.any:
                    old.begin_change(beside)
                _change(index, new, list(changes.stale), report)
                reading.update = changes.summary()
            if old is None or changes.any:
                beside.move_to(folder)
        finally:
            beside.path.unlink(missing_ok=True)
    return index


def kept_folder(folder: str | Path, kept: Path) -> Path:
    """The folder, in `kept`, of the indexes that are kept of a folder of documents, each in a folder of its engine."""
    whole = Path(folder).absolute()
    key = hashlib.sha256(os.fsencode(whole)).hexdigest()[:12]
    return kept / f"{whole.name or 'root'}-{key}"


def open_documents(
    folder: str | Path, kept: Path, engine: str | None = None, *, progress: Progress | None = None
) -> Retriever | None:
    """The index that is kept of a folder of documents, as it is now; None if the folder holds no documents.

    Args:
        folder: the documents.
        kept: where indexes are kept, as for `LiveIndex`.
        engine: its engine; None for the one that is there, or `hybrid`.
        progress: called now and then.
    """
    if not open_folder(folder).files:
        return None
    place = kept_folder(folder, kept)
    engine = engine or next((name for name in (NEW_INDEX, "bm25") if (place / name).is_dir()), NEW_INDEX)
    try:
        return build_index(folder, place / engine, engine=engine, progress=progress)
    except IndexFolderError:  # such as while a service is changing it
        if Sources.of_index(place / engine) is None:
            raise
        return open_index(place / engine)


def recorded_engine(folder: str | Path) -> str | None:
    """The engine of the index of documents in a folder; None if there is none."""
    sources = Sources.of_index(folder)
    return sources.settings().get("engine") if sources is not None else None


def _check_same(folder: Path, recorded: dict[str, Any], settings: dict[str, Any]) -> None:
    """Refuse to change an index that was built from another source or with other settings."""
    for name, value in settings.items():
        if (recorded.get(name) or None) != (value or None):
            raise UsageError(
                f"{folder}: another index is already there ({name.replace('_', '-')} {recorded.get(name)!r}, not "
                f"{value!r}); choose another path, or overwrite it (--overwrite)"
            )


def _files(
    source: Path, splitter: Splitter, reading: Reading, known: dict[str, FileRecord], report: Progress
) -> Iterator[ReadFile]:
    """The files of a corpus; those that have not changed come without passages."""
    documents = document_folder(source)
    if documents is not None:
        yield from read_documents(documents, splitter, reading, known, report)
        return
    name = shown_name(source.name)
    record = FileRecord(file_digest(source) if source.is_file() else None)

    def placed() -> Iterator[tuple[Passage, Source]]:
        for line, passage in read_passages(source):
            reading.documents += 1
            yield from ((part, Source(name, "line", line, line)) for part in splitter.split_passage(passage))

    yield ReadFile(name, record, None if known.get(name) == record else placed())


class _Changes:
    """Compares the files of a corpus with those that an index was built from, and records where its passages come from.

    Attributes:
        known: the files that the index was built from.
        stale: ids of passages that are to be removed.
        any: whether anything has changed.
    """

    def __init__(self, old: Sources | None, beside: Sources) -> None:
        self._old, self._beside = old, beside
        self.known = old.files() if old is not None else {}
        self.stale: dict[str, None] = {}
        self.any = False
        self._files = self._added = self._replaced = self._kept = 0

    def follow(self, files: Iterable[ReadFile]) -> Iterator[Passage]:
        """Yield the passages that the index does not have, or has with different content."""
        gone = dict(self.known)
        for file in files:
            self.any |= gone.pop(file.name, None) != file.record
            before = self._digests(file.name)
            self._beside.write_file(file.name, file.record)
            if file.placed is None:
                self._kept += len(before)
                if self._old is not None:
                    self._beside.copy_passages(file.name, self._old)
                continue
            self._files += 1
            self.stale.update(dict.fromkeys(before))
            for part in batches(file.placed):
                self._beside.write_passages(part)
                for passage, _ in part:
                    self.stale.pop(passage.id, None)
                    if before.get(passage.id) == passage_digest(passage):
                        self._kept += 1
                        continue
                    self._added += 1
                    self._replaced += passage.id in before
                    yield passage
        for name in gone:
            self.stale.update(dict.fromkeys(self._digests(name)))
        self._files, self.any = self._files + len(gone), self.any or bool(gone)

    def _digests(self, file: str) -> dict[str, str]:
        return self._old.digests(file) if self._old is not None and file in self.known else {}

    def summary(self) -> Update:
        """The figures, after all files were compared."""
        return Update(self._files, self._added, len(self.stale) + self._replaced, self._kept)


def _change(index: Any, new: list[Passage], stale: list[str], report: Progress) -> None:
    """Change an index in place."""
    for start in range(0, len(new), _AT_ONCE):
        report(start, len(new), "encoding passages")
        index.add(new[start : start + _AT_ONCE], replace=True)
    if stale:
        index.delete(stale)
    if hasattr(index, "merge") and 0 < _MERGED_FROM * len(index) < len(new) + len(stale):
        index.merge()


def _counted(passages: Iterable[Passage], report: Progress) -> Iterator[Passage]:
    """Yield the passages, and report how many there were."""
    for count, passage in enumerate(passages, start=1):
        if count % _REPORTED == 0:
            report(count, 0, "reading passages")
        yield passage


def _at_least_one(passages: Iterator[Passage], source: Path, reading: Reading) -> Iterator[Passage]:
    """Yield the passages, or raise a `DataError` if there are none."""
    first = next(passages, None)
    if first is None:
        problems = (f" ({name}: {problem})" for name, problem in reading.problems.items())
        raise DataError(f"holds no documents that can be read{next(problems, '')}", path=source)
    yield first
    yield from passages
