"""Retrievers over Qdrant collections that other tools filled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

from knowgap.errors import IndexFolderError, IndexForeign, UsageError, without_credentials
from knowgap.retrieval.adapters.documents import Adapter, Found, passage_of
from knowgap.retrieval.passage import Passage


class QdrantCollection(Adapter):
    """A Qdrant collection with one vector for each passage, searched by the collection's own distance.

    Args:
        url: `http://host:6333/COLLECTION`, with optional query parameters: `encoder`, the model of
            sentence-transformers that made the vectors, by folder or hub name (default: the embedded one); and `using`,
            the name of the vectors. The key in the environment variable QDRANT_API_KEY is sent.

    Raises:
        UsageError: the address names no collection, or has another parameter.
        IndexMissing: no server answers.
        IndexFolderError: there is no such collection.
        IndexForeign: its vectors do not fit the encoder.
    """

    def __init__(self, url: str) -> None:
        from knowgap.retrieval.dense import load_encoder
        from knowgap.retrieval.qdrant_connection import connect, key_for

        parts = urlsplit(url)
        options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        self._collection, server = parts.path.strip("/"), urlunsplit((parts.scheme, parts.netloc, "", "", ""))
        if not self._collection or options.keys() - {"encoder", "using"}:
            form = "qdrant+http://host:6333/COLLECTION?encoder=MODEL&using=VECTORS"
            raise UsageError(f"{without_credentials(url)}: name the collection, as in {form}; the rest may be left out")
        self.name = f"qdrant {without_credentials(server)}/{self._collection}"
        self._client = connect(server, key_for(server, None))
        if not self._client.collection_exists(self._collection):
            raise IndexFolderError(f"{self.name}: there is no such collection")
        self._encoder = load_encoder(options.get("encoder"), None)
        self._using = self._vectors(options.get("using"))

    def _vectors(self, wanted: str | None) -> str | None:
        """The name of the vectors to search; None if they are unnamed."""
        stored: Any = self._client.get_collection(self._collection).config.params.vectors
        named: dict[str, Any] = stored if isinstance(stored, dict) else {"": stored} if stored else {}
        sizes = {name: vector.size for name, vector in named.items() if vector.multivector_config is None}
        fitting = [name for name, size in sizes.items() if size == self._encoder.dim and wanted in (None, name)]
        if len(fitting) != 1:
            held = ", ".join(f"{name or 'one vector'} of {size} numbers" for name, size in sizes.items()) or "none"
            raise IndexForeign(
                f"{self.name} needs one vector of {self._encoder.dim} numbers, as the encoder makes, and has {held}: "
                f"name the encoder that made them, and the vectors: {self._collection}?encoder=MODEL&using=NAME"
            )
        return fitting[0] or None

    def _ask(self, queries: list[str], k: int) -> Iterable[Found]:
        from qdrant_client import models

        requests = [
            models.QueryRequest(
                query=self._encoder.encode_query(query)[0].tolist(), using=self._using, limit=k, with_payload=True
            )
            for query in queries
        ]
        for answer in self._client.query_batch_points(self._collection, requests):
            yield [(self._passage(point), float(point.score)) for point in answer.points]

    def _passage(self, point: Any) -> Passage:
        """The passage of a point, with the id in its payload if there is one."""
        payload = point.payload or {}
        try:
            return passage_of(
                next((payload[name] for name in ("id", "_id", "doc_id") if name in payload), point.id), payload
            )
        except ValueError as error:
            raise IndexForeign(f"{self.name}: {error}") from error

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
