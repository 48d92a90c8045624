"""An index of one's own documents: built of a corpus, and later changed as far as the corpus has changed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from knowgap.compiling.data.corpus import Split, document_folder, read_corpus_lines
from knowgap.compiling.data.corpus_changes import CorpusChanges, Update
from knowgap.errors import DataError, UsageError
from knowgap.retrieval.documents.folder import shown_name
from knowgap.retrieval.documents.reading import ReadFile, Reading, passage_digest, read_documents
from knowgap.retrieval.documents.sources import FileRecord, PassageRecord, Source, Sources
from knowgap.retrieval.documents.splitting import PASSAGE_TOKENS, Piece, Splitter
from knowgap.retrieval.index.engines import engine_class, open_index
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.index.passage_store import PassageStore
from knowgap.retrieval.index.window import engine_window
from knowgap.retrieval.passage import Passage, Retriever
from knowgap.storage.files import file_digest
from knowgap.storage.progress import Progress, no_progress

__all__ = ["IndexedCorpus", "index_corpus", "recorded_engine"]

_AT_ONCE = 512  # passages
_LINES_AT_ONCE = 4096
_COMPACTED_FROM = 0.2  # of the passages of an index, changed at once


@dataclass(frozen=True)
class IndexedCorpus:
    """What `index_corpus` has done.

    Attributes:
        index: the index, open.
        engine: its engine.
        reading: which documents were read, left out, unreadable or split.
        update: what has changed; None if the index was built.
    """

    index: Retriever
    engine: str
    reading: Reading
    update: Update | None


def index_corpus(
    corpus: str | Path,
    path: str | Path,
    *,
    engine: str | None = None,
    split: Split = "auto",
    passage_tokens: int = PASSAGE_TOKENS,
    overwrite: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> IndexedCorpus:
    """Build the index of a corpus; or, if the index is there, change it as far as the corpus has changed.

    The ids of passages depend on their own document alone. A passage that is the same as before is not encoded again:
    ColBERT, dense and Qdrant indexes are changed in place; BM25 and hybrid indexes are built again as a whole. Files
    are compared by their digests, and only those that have changed are read. A file that has become unreadable keeps
    the passages that it had.

    Args:
        corpus: a folder of documents, one document, or a file of JSON Lines or TSV.
        path: the folder of the index.
        engine: a key of `ENGINES`; None is that of the index which is there, or `colbert`.
        split: whether texts of JSON Lines and TSV that are longer than a passage are split; other documents always are.
        passage_tokens: a passage has at most so many tokens, and never more than the encoder reads.
        overwrite: build the index anew in any case.
        progress: called now and then.
        **options: arguments of the engine's `build`.

    Raises:
        DataError: a corpus that cannot be read, or without anything that can be indexed.
        UsageError: another index is at the path.
        KnowgapError: what the engine's `build` and `open` raise.
    """
    corpus, path = Path(corpus), Path(path)
    sources = None if overwrite else Sources.of_index(path)
    recorded = sources.settings() if sources is not None else {}
    engine = engine or (recorded_engine(path) if sources is not None else None) or "colbert"
    settings = {"engine": engine, "split": split, "passage_tokens": passage_tokens}
    settings["options"] = {name: _recordable(value) for name, value in options.items()}
    settings["corpus"] = str(corpus.resolve())
    encoder = options.get("encoder", options.get("checkpoint"))
    job = _Job(corpus, path, settings, options, Splitter(engine_window(engine, encoder), passage_tokens), progress)
    if sources is None:
        return IndexedCorpus(job.build(overwrite), engine, job.reading, None)
    _check_same(path, recorded, settings, corpus, sources)
    index, update = job.change(sources)
    return IndexedCorpus(index, engine, job.reading, update)


def recorded_engine(path: str | Path) -> str | None:
    """The engine of the index that `index_corpus` made at a path; None if it has made none there."""
    sources = Sources.of_index(path)
    return sources.settings().get("engine") if sources is not None else None


def _recordable(value: Any) -> Any:
    """A value as JSON holds it; a function by its name."""
    try:
        return json.loads(json.dumps(value))
    except TypeError:
        return str(getattr(value, "__name__", value))


def _check_same(path: Path, recorded: dict[str, Any], settings: dict[str, Any], corpus: Path, sources: Sources) -> None:
    """Refuse to change an index that was made of something else or in another way."""
    for name in ("engine", "split", "passage_tokens", "options"):
        if recorded.get(name) != settings[name]:
            raise UsageError(
                f"{path}: another index stands there ({name.replace('_', '-')} {recorded.get(name)!r}, not "
                f"{settings[name]!r}); choose another path, or overwrite it"
            )
    if recorded.get("corpus") != settings["corpus"]:
        folder = document_folder(corpus)
        names = {shown_name(corpus.name)} if folder is None else folder.files.keys()
        known = sources.files()
        if len(names & known.keys()) * 2 < len(known):
            raise UsageError(
                f"{path}: another index stands there, of {recorded.get('corpus')}; choose another path, or overwrite it"
            )


@dataclass
class _Job:
    """One call of `index_corpus`."""

    corpus: Path
    path: Path
    settings: dict[str, Any]
    options: dict[str, Any]
    splitter: Splitter
    progress: Progress | None
    reading: Reading = field(default_factory=Reading)

    @property
    def engine(self) -> str:
        return self.settings["engine"]

    def build(self, overwrite: bool) -> Retriever:
        """Build the index of all documents."""
        return self._build(((file, file.passages or []) for file in self._files({})), overwrite)

    def change(self, sources: Sources) -> tuple[Retriever, Update]:
        """Change the index that is there, in place or by building it again."""
        known = sources.files()
        files, looked_at = self._files(known), list[ReadFile]()
        for file in files:
            looked_at.append(file)
            if file.record != known.get(file.name):
                break
        else:
            if {file.name for file in looked_at} == known.keys():
                kept = sum(len(sources.records(name)) for name in known)
                return self._open(), Update(0, 0, 0, kept, False)
        changes, every = CorpusChanges(sources, known), itertools.chain(looked_at, files)
        if not hasattr(engine_class(self.engine), "add"):
            return self._build_again(changes, every), changes.summary(rebuilt=True)
        return self._change_in_place(changes, every), changes.summary(rebuilt=False)

    def _change_in_place(self, changes: CorpusChanges, files: Iterable[ReadFile]) -> Retriever:
        beside = changes.sources.copy_to(self._beside)
        new: list[Passage] = []
        try:
            for file in files:
                new += changes.compare(file)
                if file.record != changes.known.get(file.name):
                    beside.write(file.name, file.record, file.records, continued=file.continued)
            beside.forget(changes.gone())
            index: Any = self._open()
            report = self.progress or no_progress
            for start in range(0, len(new), _AT_ONCE):
                report(start, len(new), "encoding passages")
                index.add(new[start : start + _AT_ONCE], replace=True)
            report(len(new), len(new), "encoding passages")
            index.delete(changes.stale)
            beside.move_to(self.path)
        finally:
            beside.path.unlink(missing_ok=True)
        if hasattr(index, "compact") and 0 < _COMPACTED_FROM * len(index) < len(new) + len(changes.stale):
            index.compact()
        return index

    def _build_again(self, changes: CorpusChanges, files: Iterable[ReadFile]) -> Retriever:
        """Build the index again; the passages of files that have not changed are those of the old index."""
        store = PassageStore(self.path / Manifest.read(self.path).root)

        def with_passages() -> Iterator[tuple[ReadFile, list[Passage]]]:
            for file in files:
                changes.compare(file)
                passages, records = file.passages, file.records
                if passages is None:
                    records = changes.sources.records(file.name)
                    places = [store.position(record.id) for record in records]
                    passages = [store[place] for place in places if place is not None]
                yield replace(file, passages=passages, records=records), passages
            changes.gone()

        return self._build(with_passages(), overwrite=True)

    def _build(self, files: Iterable[tuple[ReadFile, list[Passage]]], overwrite: bool) -> Retriever:
        """Build the index of files and their passages, and then record where these come from."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = Sources.create(self._beside, self.settings)

        def passages() -> Iterator[Passage]:
            count, report = 0, self.progress or no_progress
            for file, of_file in files:
                beside.write(file.name, file.record, file.records, continued=file.continued)
                yield from of_file
                count += len(of_file)
                report(count, 0, f"passages, the last of {file.name}")
            if not count:
                problems = (f" ({name}: {problem})" for name, problem in self.reading.problems.items())
                raise DataError(f"holds no documents that can be read{next(problems, '')}", path=self.corpus)

        try:
            build = engine_class(self.engine).build
            index = build(passages(), self.path, overwrite=overwrite, progress=self.progress, **self.options)
            beside.move_to(self.path)
        finally:
            beside.path.unlink(missing_ok=True)
        return index

    @property
    def _beside(self) -> Path:
        """Where the sources are written before they are moved into the index."""
        return self.path.with_name(f".{self.path.name}.sources")

    def _open(self) -> Retriever:
        names = {"encoder", "checkpoint"} & self.options.keys()
        return open_index(self.path, engine=self.engine, **{name: self.options[name] for name in names})

    def _files(self, known: dict[str, FileRecord]) -> Iterator[ReadFile]:
        """The files of the corpus; those that have not changed come without passages."""
        folder = document_folder(self.corpus)
        if folder is not None:
            yield from read_documents(folder, self.splitter, self.reading, known)
            return
        name = shown_name(self.corpus.name)
        digest = file_digest(self.corpus) if self.corpus.is_file() else None
        record = FileRecord(digest)
        if known.get(name) == record:
            yield ReadFile(name, record)
            return
        pieces = self._pieces()
        for continued in itertools.chain([False], itertools.repeat(True)):
            part = list(itertools.islice(pieces, _LINES_AT_ONCE))
            if not part:
                return
            passages = [piece.passage for _, piece in part]
            records = [
                PassageRecord(piece.passage.id, passage_digest(piece.passage), source)
                for line, piece in part
                for source in [Source(name, piece.start, piece.end, "line", line, line)]
            ]
            yield ReadFile(name, record, passages, records, continued)

    def _pieces(self) -> Iterator[tuple[int, Piece]]:
        """Lines and passages of a file of JSON Lines or TSV."""
        for line, document in read_corpus_lines(self.corpus):
            whole = self.settings["split"] == "never"
            pieces = [Piece(document, 0, len(document.text))] if whole else self.splitter.split_passage(document)
            self.reading.count(len(pieces))
            yield from ((line, piece) for piece in pieces)
