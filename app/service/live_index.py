"""The index of a served folder, which is built with BM25 first, then with the engine, and follows later changes."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from knowgap.compiling.data.indexing import build_index, kept_folder
from knowgap.errors import DataError, IndexMissing
from knowgap.retrieval.documents.reading import Reading, find_files
from knowgap.retrieval.index import NEW_INDEX
from knowgap.retrieval.indexes import open_index
from knowgap.retrieval.passage import Hit, NeverCopied, Passage
from knowgap.storage.progress import Progress, no_progress

_LOG = logging.getLogger(__name__)
_WORDS = "bm25"
_FIRST = 2.0  # seconds in which the documents are read that can be searched before the others
_AFTER_FAILURE = 10.0  # seconds before the next try


class LiveIndex(NeverCopied):
    """A retriever over a folder of documents that follows the folder.

    A thread first indexes what can be read in two seconds with BM25, then all documents. It then indexes them with the
    engine, whose index replaces the other when it is complete, and looks for changes from then on. Both indexes are
    saved, so that the next start reads only what has changed.

    Args:
        folder: the documents.
        kept: the folder in which the indexes are saved.
        engine: the engine of the final index; with "bm25" there is no other.
        seconds: the interval between two looks for changes.
        progress: called as documents are read and passages are encoded.
        say: called with a line when something can be searched, and with what is left out of documents.

    Attributes:
        being_read: how many documents can be searched, and how many there are; None if all can be searched.
        busy: what is being read or encoded, and how far; empty if nothing is.
        problem: why the documents could not be indexed, for clients; empty if they could. While the folder has no
            documents, there is no index.
        left_out: how many files of the folder are left out, by reason.

    Raises:
        DataError: there is no such folder.
    """

    def __init__(
        self,
        folder: str | Path,
        kept: Path,
        *,
        engine: str = NEW_INDEX,
        seconds: float = 5.0,
        progress: Progress = no_progress,
        say: Callable[[str], None] = _LOG.info,
    ) -> None:
        self.folder = Path(folder).absolute()
        self._kept = kept_folder(self.folder, kept)
        self._engine, self._seconds, self._progress, self._say = engine, seconds, progress, say
        self._index: Any = None
        self.being_read: tuple[int, int] | None = (0, len(find_files(self.folder)))
        self.left_out = Counter[str]()
        self.busy, self.problem, self._told = "no document has been read yet", "", list[str]()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="knowgap documents", daemon=True)

    def start(self) -> None:
        """Begin to index in the background."""
        self._thread.start()

    def close(self) -> None:
        """End after the current file or batch; what is complete is kept."""
        self._ended.set()

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The `k` best passages for each query, of what is indexed so far.

        Raises:
            IndexMissing: nothing can be searched; the message says why, or how far the documents were read.
        """
        if (index := self._index) is None:
            reading = f"the documents are still being read ({self.busy}): ask again in a moment"
            raise IndexMissing(self.problem or reading)
        return index.search(queries, k)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_index" not in vars(self):
            raise AttributeError(name)
        return getattr(self._index, name)

    def __len__(self) -> int:
        return len(self._index or ())

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Passage]:
        return iter(self._index or ())

    def _follow(self) -> None:
        seen, said = list[tuple[str, int, int]](), ""
        while not self._ended.is_set():
            cause = ""
            try:
                stats = ((name, path.stat()) for name, path in find_files(self.folder).items())
                now = [(name, stat.st_mtime_ns, stat.st_size) for name, stat in stats]
                if now != seen or not now:
                    self._index_all()
                self.problem, seen = "", now
            except _Ended:
                return
            except DataError as error:  # there are no documents, or no longer
                self._index, self.being_read, seen = None, None, []
                cause, self.problem = str(error), f"{self.folder.name} {error.problem}"
            except Exception as error:  # such as a full disk; the next round may do
                _LOG.debug("the documents could not be indexed", exc_info=True)
                cause = str(error) or repr(error)
                self.problem = "the documents could not be indexed; the server's log says why"
            self.busy = ""
            if cause and cause != said:
                self._say(f"the documents could not be indexed: {cause}")
            said = cause
            self._ended.wait(_AFTER_FAILURE if cause else self._seconds)

    def _index_all(self) -> None:
        """Update the index; until there is one with the engine, build one with BM25."""
        engines = [self._engine] if (self._kept / self._engine).is_dir() else [_WORDS, self._engine]
        if self._index is None and (documents := len(find_files(self.folder))):
            self.being_read = (0, documents)
            for engine in (self._engine, _WORDS):
                if self._index is None and (self._kept / engine).is_dir():
                    self._index, self.being_read = open_index(self._kept / engine), None
        for engine in dict.fromkeys(engines):
            if self._build(engine, Reading(until=time.monotonic() + _FIRST if self._index is None else None)):
                self._build(engine, Reading())

    def _build(self, engine: str, reading: Reading) -> int:
        """Build or update the index of an engine, which is searched from then on; return how many files remain."""
        kept = self._kept / engine
        index: Any = build_index(self.folder, kept, engine=engine, reading=reading, progress=self._report)
        self._index, documents = index, len(find_files(self.folder))
        self.being_read = (documents - reading.remaining, documents) if reading.remaining else None
        self.left_out = Counter(reading.left_out)
        told = reading.told()
        for line in told:
            if line not in self._told:
                self._say(line)
        self._told = told
        if reading.update is None or reading.update.files:
            self._say(f"{len(index):,} passages can be searched ({engine})")
        return reading.remaining

    def _report(self, done: int, total: int, what: str) -> None:
        if self._ended.is_set():
            raise _Ended
        self.busy = f"{done:,} of {total:,} {what}"
        self._progress(done, total, what)


class _Ended(Exception):
    """The server ends."""
