"""Build an index of documents, and update it when the documents have changed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from knowgap.compiling.data.corpus import read_source, warn_of
from knowgap.compiling.data.dataset import Dataset
from knowgap.errors import IndexFolderError, UsageError
from knowgap.retrieval.documents.reading import ReadFile, Reading, Update
from knowgap.retrieval.documents.sources import Sources, batches, passage_digest
from knowgap.retrieval.documents.splitting import PASSAGE_TOKENS, Splitter
from knowgap.retrieval.index import NEW_INDEX
from knowgap.retrieval.index.base import lock_index
from knowgap.retrieval.index.manifest import FORMAT_VERSION
from knowgap.retrieval.indexes import engine_class, open_index
from knowgap.retrieval.passage import Passage, Retriever
from knowgap.storage.progress import Progress, no_progress

_AT_ONCE = 512  # passages


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

    The ids of passages depend only on their own document. A passage that is the same as before is not encoded again.
    An index is changed in place, except for a `plaid` one, which has to be built again. Files are compared by their
    digests, and only those that have changed are read. A file that has become unreadable keeps the passages that it
    had.

    Args:
        source: a folder of documents, one document, or a file of JSON Lines, TSV or CSV; a data set; or passages. The
            passages of the last two are indexed as they are.
        folder: the folder of the index.
        engine: a key of `ENGINES`; None for the engine of the existing index, or `hybrid`.
        passage_tokens: the most tokens of a passage, which never has more than the encoder reads. A longer text is
            split.
        overwrite: replace another index in the folder.
        reading: filled with what was read, left out, unreadable and split, and with what has changed; without one,
            warnings name the files that could not be read.
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
        passages, kind = source.corpus if isinstance(source, Dataset) else source, engine_class(engine or NEW_INDEX)
        return kind.build(passages, folder, overwrite=overwrite, progress=progress, **options)
    source, told, reading = Path(source), reading is not None, Reading() if reading is None else reading
    with lock_index(folder) as target:
        old = None if overwrite else Sources.of_index(folder)
        made_with = old.settings() if old is not None else {}
        engine_name: str = engine or made_with.get("engine") or NEW_INDEX
        settings: dict[str, Any] = {
            "engine": engine_name,
            "passage_tokens": passage_tokens,
            "corpus": str(source.resolve()),
            "options": json.loads(json.dumps(options, default=lambda value: getattr(value, "__name__", str(value)))),
        }
        kind = engine_class(engine_name)
        splitter = Splitter(kind.window_of(options.get("encoder")), passage_tokens)
        for name, value in settings.items() if old is not None else ():
            if (was := made_with.get(name)) != value:
                raise UsageError(
                    f"{folder}: another index is already there ({name.replace('_', '-')} {was!r}, not {value!r}); "
                    "choose another path, or overwrite it (--overwrite)"
                )
        beside = Sources.create(target.with_name(f".{target.name}.sources"), settings)
        try:
            known = old.files() if old is not None else {}
            files = read_source(source, splitter, reading, known, report)
            new = _new_passages(files, old, beside)
            if old is None:
                index: Any = kind.build(new, folder, overwrite=overwrite, progress=progress, **options)
            else:
                changed = list(new)
                stale, differing = beside.stale(old), {name for name, _ in known.items() ^ beside.files().items()}
                reading.update = Update(len(differing), len(changed), len(stale))
                index = kind.open(folder, encoder=options.get("encoder"))
                if reading.update.files and not hasattr(index, "add"):
                    raise UsageError(f"{folder}: documents have changed; build {engine_name} again (--overwrite)")
                if reading.update.files:
                    old.begin_change(beside)
                    _change(index, changed, stale, report)
            beside.move_to(folder)
        finally:
            beside.path.unlink(missing_ok=True)
    if not told:
        warn_of(reading)
    return index


def kept_folder(folder: str | Path, kept: Path) -> Path:
    """The folder, in `kept`, of the indexes of a folder of documents, one for each engine; its name has the format."""
    whole = Path(folder).absolute()
    key = hashlib.sha256(os.fsencode(whole)).hexdigest()[:12]
    return kept / f"{whole.name or 'root'}-{key}-format{FORMAT_VERSION}"


def open_documents(
    folder: str | Path, kept: Path, engine: str | None = None, *, progress: Progress | None = None
) -> Retriever:
    """The index that is kept of a folder of documents, as it is now.

    Args:
        folder: the documents.
        kept: where indexes are kept, as for `LiveIndex`.
        engine: its engine; None for the one that is there, or `hybrid`.
        progress: called now and then.
    """
    place = kept_folder(folder, kept)
    engine = engine or next((name for name in (NEW_INDEX, "bm25") if (place / name).is_dir()), NEW_INDEX)
    try:
        return build_index(folder, place / engine, engine=engine, progress=progress)
    except IndexFolderError:  # such as while a service is changing it
        return open_index(place / engine)


def _new_passages(files: Iterable[ReadFile], old: Sources | None, beside: Sources) -> Iterator[Passage]:
    """Record the files and their passages, and yield the passages that the index has not, or with other content."""
    for file in files:
        before = old.digests(file.name) if old is not None else {}
        beside.write(file.name, file.record)
        if file.placed is None and old is not None:
            beside.copy_passages(file.name, old)
        for part in batches(file.placed or ()):
            beside.write(file.name, file.record, part)
            yield from (passage for passage, _ in part if before.get(passage.id) != passage_digest(passage))


def _change(index: Any, new: Sequence[Passage], stale: Sequence[str], report: Progress) -> None:
    """Change an index in place."""
    for start in range(0, len(new), _AT_ONCE):
        report(start, len(new), "encoding passages")
        index.add(new[start : start + _AT_ONCE], replace=True)
    if stale:
        index.delete(stale)
