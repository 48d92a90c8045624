"""A retriever that searches an index on another machine."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import httpx
from typing_extensions import Self

from knowgap.errors import IndexFolderError, IndexMissing, without_credentials
from knowgap.retrieval.documents.sources import Source
from knowgap.retrieval.outside import Adapter, Found
from knowgap.retrieval.passage import Hit, Passage

_PLACES = 20_000  # how many passages' places in their files are remembered


class RemoteRetriever(Adapter):
    """Searches an index that `knowgap serve` serves.

    Args:
        url: the address of the server, such as http://127.0.0.1:8894; /search is added if it has no path.
        timeout: seconds to wait for an answer.
        key: the server's key, if it asks for one; None takes that of the variable KNOWGAP_INDEX_KEY, if it is set.
    """

    def __init__(self, url: str, *, timeout: float = 60.0, key: str | None = None) -> None:
        self.url, self.name = url, f"remote {without_credentials(url)}"
        self._places: dict[str, Source] = {}
        self._lock = threading.Lock()
        # No proxy from the environment: an index server runs on this machine or in its network.
        key = key or os.environ.get("KNOWGAP_INDEX_KEY")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(timeout=timeout, headers=headers, trust_env=False)

    @property
    def digest(self) -> str | None:
        """The digest of the index that is being served; None if the server does not report it."""
        return self._health("digest")

    @property
    def corpus_digest(self) -> str | None:
        """The digest of its passages; see `digest`."""
        return self._health("corpus_digest")

    def _health(self, field: str) -> str | None:
        index = _json_field(self._send("GET", "/healthz"), "index")
        value = index.get(field) if isinstance(index, dict) else None
        return value if isinstance(value, str) else None

    def search(self, queries: Sequence[str], k: int, *, files: Sequence[str] = ()) -> list[list[Hit]]:
        """The `k` best passages for each query; none for a blank one.

        Args:
            queries: any strings.
            k: at most this many hits, from 1.
            files: which files of the index are searched, as for `only_documents`.

        Raises:
            ValueOutOfBounds: k < 1.
            IndexMissing: no server answers.
            IndexFolderError: the server refuses the search, or its answer does not hold passages.
        """
        return self._search(queries, k, partial(self._ask, files=files))

    def _ask(self, queries: list[str], k: int, files: Sequence[str] = ()) -> Iterable[Found]:
        response = self._send("POST", "", json={"queries": queries, "k": k, "files": files})
        answers = _json_field(response, "results")
        if answers is None:
            error = _json_field(response, "error")
            reason = error.get("message") if isinstance(error, dict) else f"status {response.status_code}"
            raise IndexFolderError(f"{self.url}: refused the search ({reason})")
        self._keep_places(record for records in answers for record in records)
        return [[(_passage(record), float(record["score"])) for record in records] for records in answers]

    def _keep_places(self, records: Iterable[dict[str, Any]]) -> None:
        """Remember the places of passages in their files, as far as the server reports them."""
        told = {str(record["pid"]): Source(**record["source"]) for record in records if "source" in record}
        with self._lock:
            for id, place in told.items():
                self._places.pop(id, None)
                self._places[id] = place
            while len(self._places) > _PLACES:
                del self._places[next(iter(self._places))]

    def places(self, ids: Iterable[str]) -> dict[str, Source]:
        """The files and positions of recently found passages, as far as the server has reported them."""
        with self._lock:
            return {id: self._places[id] for id in ids if id in self._places}

    def _send(self, method: str, path: str, **content: Any) -> httpx.Response:
        try:
            url = httpx.URL(self.url)
            path = path or ("/search" if url.path == "/" else "")
            return self._client.request(method, url.join(path) if path else url, **content)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise IndexMissing(
                f"{self.url}: no index server answers ({type(error).__name__}: {error}); "
                "start one with `knowgap serve --index FOLDER`"
            ) from error

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _json_field(response: httpx.Response, field: str) -> Any:
    """A field of a JSON response; None if it is missing, or the response is not a JSON object."""
    try:
        return response.json().get(field)
    except (ValueError, AttributeError):
        return None


def _passage(record: dict[str, Any]) -> Passage:
    return Passage(str(record["pid"]), str(record.get("title", "")), str(record["passage"]))
