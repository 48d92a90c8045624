"""Retrievers that query the search servers of other projects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx

from knowgap.errors import IndexFolderError, IndexMissing, UsageError, shorten, without_credentials
from knowgap.retrieval.adapters.documents import Adapter, Found, passage_of


class SearchServer(Adapter):
    """Searches a server with many queries in one request; a user and password in its address are sent with each."""

    kind = ""

    def __init__(self, url: str) -> None:
        self.url, self.name = url.rstrip("/"), f"{self.kind} {without_credentials(url)}"
        self._client = httpx.Client(timeout=60.0, trust_env=False)  # no proxy: the server is local

    def _post(self, path: str, **content: Any) -> Any:
        """Send a request, and return the JSON of the response."""
        try:
            response = self._client.post(self.url + path, **content)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise IndexMissing(f"{self.name}: no server answers ({type(error).__name__}: {error})") from error
        if not response.is_success:
            said = shorten(" ".join(response.text.split()), 200)
            raise IndexFolderError(f"{self.name}: refused the search (status {response.status_code}: {said})")
        return response.json()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class ElasticsearchIndex(SearchServer):
    """An index of Elasticsearch or OpenSearch: `http://host:9200/INDEX`, searched by BM25 in its default fields."""

    kind = "elasticsearch"

    def __init__(self, url: str) -> None:
        if not urlsplit(url).path.strip("/"):
            raise UsageError(f"{without_credentials(url)}: name the index, too, as in http://host:9200/INDEX")
        super().__init__(url)

    def _ask(self, queries: list[str], k: int) -> Sequence[Found]:
        lines: list[Any] = []
        for query in queries:
            lines += [{}, {"size": k, "query": {"multi_match": {"query": query, "lenient": True}}}]
        body = "".join(json.dumps(line) + "\n" for line in lines)
        answer = self._post("/_msearch", content=body, headers={"Content-Type": "application/x-ndjson"})
        return [
            [(passage_of(hit["_id"], hit["_source"]), float(hit["_score"])) for hit in self._hits(each)]
            for each in answer["responses"]
        ]

    def _hits(self, response: Any) -> Any:
        if "error" in response:
            reason = response["error"].get("reason") or response["error"].get("type")
            raise IndexFolderError(f"{self.name}: refused the search ({reason})")
        return response["hits"]["hits"]


class FlashRAGServer(SearchServer):
    """A retriever server with FlashRAG's interface: `/batch_search` with `query`, `top_n` and `return_score`."""

    kind = "flashrag"

    def _ask(self, queries: list[str], k: int) -> Sequence[Found]:
        lists, scores = self._post("/batch_search", json={"query": queries, "top_n": k, "return_score": True})
        return [
            [(passage_of(each["id"], each), float(score)) for each, score in zip(found, own, strict=True)]
            for found, own in zip(lists, scores, strict=True)
        ]


class SearchR1Server(SearchServer):
    """The retrieval server of Search-R1: `/retrieve` with `queries`, `topk` and `return_scores`."""

    kind = "search-r1"

    def _ask(self, queries: list[str], k: int) -> Sequence[Found]:
        answer = self._post("/retrieve", json={"queries": queries, "topk": k, "return_scores": True})
        found: list[list[Any]] = answer["result"]
        return [
            [(passage_of(hit["document"]["id"], hit["document"]), float(hit["score"])) for hit in hits]
            for hits in found
        ]
