"""A retriever that searches an index on another machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from urllib.parse import urljoin, urlsplit

from knowgap.retrieval.documents.sources import Source
from knowgap.retrieval.outside import Found, Server
from knowgap.retrieval.passage import Hit, Passage

_PLACES = 20_000  # how many passages' places in their files are remembered before they are forgotten


class RemoteRetriever(Server):
    """Searches an index that `knowgap serve` serves.

    Args:
        url: the address of the server, such as http://127.0.0.1:8894; /search is added if it has no path.
        timeout: seconds to wait for an answer.
        key: the server's key, if it asks for one; None takes that of the variable KNOWGAP_INDEX_KEY, if it is set.
    """

    def __init__(self, url: str, *, timeout: float = 60.0, key: str | None = None) -> None:
        key = key or os.environ.get("KNOWGAP_INDEX_KEY")
        super().__init__(url, timeout=timeout, headers={"Authorization": f"Bearer {key}"} if key else {})
        if not urlsplit(url).path.strip("/"):
            self.url += "/search"
        self._places: dict[str, Source] = {}

    @property
    def digest(self) -> str | None:
        """The digest of the index that is being served; None if the server does not report it."""
        return self._served("digest")

    @property
    def corpus_digest(self) -> str | None:
        """The digest of its passages; see `digest`."""
        return self._served("corpus_digest")

    def _served(self, field: str) -> str | None:
        return self._send("GET", urljoin(self.url, "/healthz")).get("index", {}).get(field)

    def search(  # pyright: ignore[reportIncompatibleMethodOverride]  # no other options
        self, queries: Sequence[str], k: int, *, files: Sequence[str] = ()
    ) -> list[list[Hit]]:
        """The `k` best passages for each query, as `Adapter.search` finds them.

        `files` are the files of the index that are searched, as for `only_documents`.
        """
        return super().search(queries, k, files=files)

    def _ask(self, queries: list[str], k: int, files: Sequence[str] = ()) -> Iterable[Found]:
        answers = self._send("POST", self.url, json={"queries": queries, "k": k, "files": files})["results"]
        if len(self._places) > _PLACES:
            self._places = {}
        self._places.update(
            (str(r["pid"]), Source(**r["source"])) for records in answers for r in records if "source" in r
        )
        return [
            [(Passage(str(r["pid"]), str(r.get("title", "")), str(r["passage"])), float(r["score"])) for r in records]
            for records in answers
        ]

    def places(self, ids: Iterable[str]) -> dict[str, Source]:
        """The files and positions of recently found passages, as far as the server has reported them."""
        return {id: self._places[id] for id in ids if id in self._places}
