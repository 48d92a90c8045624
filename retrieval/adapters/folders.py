"""Retrievers over folders with indexes of other tools."""

from __future__ import annotations

import importlib
import json
import threading
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from knowgap.errors import IndexDamaged, IndexForeign, MissingDependency, shorten
from knowgap.retrieval.adapters.documents import Adapter, Found, passage_of
from knowgap.retrieval.passage import Passage


def only_file(folder: Path, patterns: Sequence[str], what: str) -> Path:
    """The only file in a folder that matches one of the patterns; `IndexForeign` is raised if there is not just one."""
    found = sorted({path for pattern in patterns for path in folder.glob(pattern)})
    if len(found) != 1:
        named = " and ".join(path.name for path in found) or "none"
        raise IndexForeign(f"{folder} must hold exactly one {what} ({', '.join(patterns)}); found: {named}")
    return found[0]


class Lines:
    """The non-blank lines of a file by number, read on demand."""

    def __init__(self, path: Path) -> None:
        self._path, self._starts, place = path, array("q"), 0
        with path.open("rb") as file:
            for line in file:
                if line.strip():
                    self._starts.append(place)
                place += len(line)

    def __len__(self) -> int:
        return len(self._starts)

    def passage(self, number: int) -> Passage:
        """The passage in a line: a document as JSON, or an id, the text and perhaps a title between tabs.

        Raises:
            IndexForeign: the line does not hold a passage.
        """
        with self._path.open("rb") as file:
            file.seek(self._starts[number])
            line = file.readline()
        try:
            if not line.startswith(b"{"):
                id, *columns = line.decode().rstrip("\r\n").split("\t")
                if not columns:
                    raise ValueError("it is neither JSON nor tab-separated text")
                return Passage(id, columns[1] if len(columns) > 1 else "", columns[0])
            document = json.loads(line)
            id = next((document[name] for name in ("id", "_id", "pid") if name in document), number)
            return passage_of(id, document)
        except ValueError as error:
            raise IndexForeign(f"{self._path}: line {number + 1} has no passage ({shorten(error)})") from error


class FaissIndex(Adapter):
    """A FAISS index with its passages: vector n belongs to line n of a JSON Lines file, as in FlashRAG.

    Args:
        folder: contains one `*.faiss` or `*.index`, one `*.jsonl`, and in `encoder/` a model of sentence-transformers
            that encodes the queries. Without `encoder/`, the embedded encoder does.
    """

    def __init__(self, folder: str | Path) -> None:
        import faiss

        from knowgap.retrieval.dense import load_encoder

        folder = Path(folder)
        self.name = f"faiss {folder.name}"
        index = only_file(folder, ("*.faiss", "*.index"), "index")
        lines = only_file(folder, ("*.jsonl",), "file of passages")
        self._encoder = load_encoder(folder / "encoder" if (folder / "encoder").is_dir() else None, None)
        try:
            self._index: Any = faiss.read_index(str(index))
        except RuntimeError:
            raise IndexForeign(f"{index} is not a FAISS index, or is damaged") from None
        self._lines, self._lock = Lines(lines), threading.Lock()
        if (vectors := int(self._index.ntotal)) != len(self._lines):
            raise IndexForeign(
                f"{folder}: {index.name} has {vectors} vectors, but {lines.name} has {len(self._lines)} passages"
            )
        if self._index.d != self._encoder.dim:
            wide = f"vectors of {self._index.d} numbers, but the encoder makes {self._encoder.dim}"
            raise IndexForeign(f"{folder}: {index.name} has {wide}: put the encoder's folder there as {folder}/encoder")

    def _ask(self, queries: list[str], k: int) -> Iterable[Found]:
        for query in queries:
            with self._lock:
                scores, rows = self._index.search(self._encoder.encode_query(query), k)
            sign = 1.0 if self._index.metric_type == 0 else -1.0  # 0 is the inner product; others are distances
            best = zip(rows[0].tolist(), scores[0].tolist(), strict=True)
            yield [(self._lines.passage(row), sign * score) for row, score in best if row >= 0]


class LuceneIndex(Adapter):
    """A Lucene index in a folder, which Pyserini searches by BM25; it has to store its documents (`storeRaw`)."""

    def __init__(self, folder: str | Path) -> None:
        if not any(Path(folder).glob("segments_*")):
            raise IndexForeign(f"{folder} is not a Lucene index: it has no file segments_…")
        try:
            searcher: Any = importlib.import_module("pyserini.search.lucene").LuceneSearcher
        except Exception as error:  # without Java, Pyserini raises exceptions of many types
            problem = f"{folder}: a Lucene index needs Java and `pip install pyserini` ({error})"
            raise MissingDependency(problem) from error
        self.name = f"lucene {Path(folder).name}"
        try:
            self._searcher, self._folder = searcher(str(folder)), folder
        except Exception as error:  # Java's
            raise IndexDamaged(f"{folder}: Lucene cannot open this index ({shorten(error, 200)})") from error

    def _ask(self, queries: list[str], k: int) -> Iterable[Found]:
        for query in queries:
            yield [(self._passage(hit.docid), float(hit.score)) for hit in self._searcher.search(query, k)]

    def _passage(self, id: str) -> Passage:
        stored = self._searcher.doc(id)
        if stored is None or (text := stored.raw() or stored.contents()) is None:
            raise IndexForeign(f"{self._folder} does not store its documents: build it again with storeRaw")
        try:
            return passage_of(id, text)
        except ValueError as error:
            raise IndexForeign(f"{self._folder}: {error}") from error


def kind_of(folder: Path) -> str:
    """The kind of index in a folder: "lucene", "faiss" or "plaid"; empty if it is none of these."""
    if any(folder.glob("segments_*")):
        return "lucene"
    if all((folder / name).is_file() for name in ("metadata.json", "centroids.pt")):
        return "plaid"
    if any(folder.glob("*.faiss")) or (any(folder.glob("*.index")) and any(folder.glob("*.jsonl"))):
        return "faiss"
    return ""
