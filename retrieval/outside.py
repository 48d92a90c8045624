"""Indexes of others: FAISS, Lucene, Elasticsearch and OpenSearch, FlashRAG's server; and `knowgap serve` elsewhere."""

from __future__ import annotations

import importlib
import os
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from urllib.parse import urljoin, urlsplit

from knowgap.errors import (
    IndexFolderError,
    IndexForeign,
    IndexMissing,
    UnknownName,
    is_address,
    shorten,
    without_credentials,
)
from knowgap.retrieval.passage import Hit, Passage, Searcher, encodable, rank_hits
from knowgap.retrieval.passage_lines import Lines, only_file, passage_of

Found = Sequence[tuple[Passage, float]]


def open_outside(name: str | Path) -> Any:
    """Open an index of another toolkit; None for any other name.

    The name is `elasticsearch+http://host:9200/INDEX`, `opensearch+…`, `flashrag+http://host:8000`, `faiss:FOLDER`,
    `lucene:FOLDER` or `plaid:FOLDER`.

    Raises:
        IndexFolderError: there is no such folder, it lacks a file that is needed, or a package is not installed.
        UnknownName: there is no such kind of server.
    """
    servers = {"elasticsearch": Elasticsearch, "opensearch": Elasticsearch, "flashrag": FlashRAGServer}
    folders = {"faiss": "outside:FaissIndex", "lucene": "outside:LuceneIndex", "plaid": "plaid:PlaidIndex"}
    kind, _, address = str(name).partition("+")
    if is_address(address):
        if kind not in servers:
            raise UnknownName.among("kind of server", kind, servers)
        return servers[kind](address)
    kind, _, place = str(name).partition(":")
    if kind not in folders or not place:
        return None
    if not Path(place).is_dir():
        raise IndexMissing(f"{name}: there is no such folder; it is named as in faiss:FOLDER")
    return resolve_name(f"knowgap.retrieval.{folders[kind]}")(Path(place))


class Adapter(Searcher):
    """Searches an index of another tool, or on another machine, by the index's own scores.

    Attributes:
        name: the kind of index, and where it is.
    """

    name: str

    def _find(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        try:
            found = zip(queries, self._ask(encodable(queries), k), strict=True)
            return [rank_hits(scored, k) for _, scored in found]
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            problem = f"answered with something other than passages ({shorten(repr(error), 120)})"
            raise IndexFolderError(f"{self.name}: {problem}") from error

    @abstractmethod
    def _ask(self, queries: list[str], k: int) -> Iterable[Found]:
        """The passages for each query with their scores."""


class FaissIndex(Adapter):
    """A FAISS index with its passages: vector n belongs to line n of a JSON Lines file, as in FlashRAG.

    Args:
        folder: contains one `*.faiss` or `*.index`, one `*.jsonl` or `*.tsv`, and in `encoder/` a model of
            sentence-transformers that encodes the queries. Without `encoder/`, the embedded encoder does.
    """

    def __init__(self, folder: Path) -> None:
        import faiss

        from knowgap.retrieval.dense import DenseEncoder

        index, self.name = only_file(folder, "*.faiss", "*.index"), f"faiss {folder.name}"
        own = folder / "encoder"
        self._encoder = DenseEncoder.load(own) if own.is_dir() else DenseEncoder.embedded()
        self._lines = Lines(folder)
        self._index: Any = faiss.read_index(str(index))
        shape, wanted = (self._index.ntotal, self._index.d), (len(self._lines), self._encoder.dim)
        if shape != wanted:
            raise IndexForeign(f"{index}: {shape} vectors and dimensions; passages and encoder/ have {wanted}")

    def _ask(self, queries: list[str], k: int) -> Iterable[Found]:
        for query in queries:
            scores, rows = self._index.search(self._encoder.encode_query(query), k)
            sign = 1.0 if self._index.metric_type == 0 else -1.0  # 0 is the inner product; others are distances
            best = zip(rows[0].tolist(), scores[0].tolist(), strict=True)
            yield [(self._lines[row], sign * score) for row, score in best if row >= 0]


class LuceneIndex(Adapter):
    """A Lucene index in a folder, which Pyserini searches by BM25; it has to store its documents (`storeRaw`)."""

    def __init__(self, folder: Path) -> None:
        self.name = f"lucene {folder.name}"
        try:
            pyserini: Any = importlib.import_module("pyserini.search.lucene")
            self._searcher: Any = pyserini.LuceneSearcher(str(folder))
        except Exception as error:  # Java's, and without Java Pyserini's of many types
            problem = f"cannot be opened ({shorten(error, 200)}); Lucene needs Java and `pip install pyserini`"
            raise IndexFolderError(f"{folder}: {problem}") from error

    def _ask(self, queries: list[str], k: int) -> Iterable[Found]:
        for query in queries:
            stored = [(hit, self._searcher.doc(hit.docid)) for hit in self._searcher.search(query, k)]
            yield [(passage_of(h.docid, doc.raw() or doc.contents() or {}), float(h.score)) for h, doc in stored]


class Server(Adapter):
    """An index behind HTTP; user and password in its address are sent, and left out of messages."""

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        import httpx  # whose import takes as long as a search

        self.url, self.name = url.rstrip("/"), without_credentials(url)
        # No proxy from the environment: an index server runs on this machine or in its network.
        self._client = httpx.Client(timeout=60.0, headers=headers, trust_env=False)
        self._errors = (httpx.HTTPError, httpx.InvalidURL)

    def _send(self, method: str, url: str, **content: Any) -> Any:
        """Send a request, and return the JSON of the answer.

        Raises:
            IndexMissing: no server answers.
            IndexFolderError: it refuses.
            ValueError: the answer is not JSON.
        """
        try:
            response = self._client.request(method, url, **content)
        except self._errors as error:
            problem = f"no index server answers ({type(error).__name__}: {error})"
            raise IndexMissing(f"{self.name}: {problem}; `knowgap serve --index FOLDER` starts one") from error
        if not response.is_success:
            said = f"status {response.status_code}: {shorten(response.text, 200)}"
            raise IndexFolderError(f"{self.name}: refused the search ({said})")
        return response.json()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class FlashRAGServer(Server):
    """A retriever server with FlashRAG's interface: `/batch_search` with `query`, `top_n` and `return_score`."""

    def _ask(self, queries: list[str], k: int) -> Iterable[Found]:
        asked = {"query": queries, "top_n": k, "return_score": True}
        lists, scores = self._send("POST", f"{self.url}/batch_search", json=asked)
        for found, own in zip(lists, scores, strict=True):
            yield [(passage_of(each["id"], each), float(score)) for each, score in zip(found, own, strict=True)]


class Elasticsearch(Server):
    """An index of Elasticsearch or OpenSearch: `http://host:9200/INDEX`, searched by BM25 in its default fields."""

    def _ask(self, queries: list[str], k: int) -> Iterable[Found]:
        for query in queries:
            asked = {"size": k, "query": {"multi_match": {"query": query, "lenient": True}}}
            found = self._send("POST", f"{self.url}/_search", json=asked)["hits"]["hits"]
            yield [(passage_of(hit["_id"], hit["_source"]), float(hit["_score"])) for hit in found]


class RemoteRetriever(Server):
    """Searches an index that `knowgap serve` serves; it sends the key in the environment variable KNOWGAP_INDEX_KEY.

    Args:
        url: the address of the server, such as http://127.0.0.1:8894; /search is added if it has no path.
    """

    def __init__(self, url: str) -> None:
        key = os.environ.get("KNOWGAP_INDEX_KEY")
        super().__init__(url, {"Authorization": f"Bearer {key}"} if key else {})
        if not urlsplit(url).path.strip("/"):
            self.url += "/search"

    @property
    def digest(self) -> str | None:
        """The digest of the index that is being served; None if the server does not report it."""
        return self._send("GET", urljoin(self.url, "/healthz")).get("index", {}).get("digest")

    def _ask(self, queries: list[str], k: int) -> Iterable[Found]:
        answers = self._send("POST", self.url, json={"queries": queries, "k": k})["results"]
        return [
            [(Passage(str(r["pid"]), str(r.get("title", "")), str(r["passage"])), float(r["score"])) for r in records]
            for records in answers
        ]
