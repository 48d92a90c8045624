"""An index on another machine, as a retriever."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from typing_extensions import Self

from knowgap.errors import IndexFolderError, IndexMissing
from knowgap.retrieval.index.passage_store import check_k
from knowgap.retrieval.passage import Hit, Passage, rank_hits

__all__ = ["RemoteRetriever"]

_QUERIES_AT_ONCE = 64
_CONNECTIONS = 16


class RemoteRetriever:
    """Searches an index that `knowgap serve-index` serves, or any server of the protocol of `dspy.ColBERTv2`.

    Args:
        url: where it is served.
        batch: send many queries in one request, which only `knowgap serve-index` understands; False sends each query
            in a request of its own, some at a time.
        timeout: seconds to wait for an answer.
    """

    def __init__(self, url: str, *, batch: bool = True, timeout: float = 60.0) -> None:
        import httpx

        self.url, self._batch = url, batch
        self.name = f"remote {url}"
        # No proxy from the environment: an index server stands on this machine or in its own network.
        limits = httpx.Limits(max_connections=_CONNECTIONS)
        self._client = httpx.Client(timeout=timeout, limits=limits, trust_env=False)

    @property
    def digest(self) -> str | None:
        """The digest of the index that is served now; None where the server does not say.

        Raises:
            IndexMissing: no server answers.
        """
        return _text_or_none(self._described("digest"))

    @property
    def corpus_digest(self) -> str | None:
        """The digest of its passages; see `digest`."""
        return _text_or_none(self._described("corpus_digest"))

    @property
    def quality(self) -> str | None:
        """How thoroughly the server searches its index; see `digest`."""
        return _text_or_none(self._described("quality"))

    def _described(self, name: str) -> Any:
        response = self._send("GET", "/health")
        try:
            return response.json().get(name)
        except (ValueError, AttributeError):
            return None

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The `k` best passages for each query; none for a blank one.

        Args:
            queries: any strings.
            k: at most this many hits, from 1.

        Raises:
            ValueOutOfBounds: k < 1.
            IndexMissing: no server answers.
            IndexFolderError: the server refuses, or answers with something else.
        """
        check_k(k)
        asked = [query for query in dict.fromkeys(queries) if query.strip()]
        if self._batch:
            parts = [asked[start : start + _QUERIES_AT_ONCE] for start in range(0, len(asked), _QUERIES_AT_ONCE)]
            bodies = [{"queries": part, "k": k} for part in parts]
            answers = [hits for body in bodies for hits in self._ask("POST", json=body)["results"]]
        elif asked:
            with ThreadPoolExecutor(min(_CONNECTIONS, len(asked))) as pool:
                requests = [pool.submit(self._ask, "GET", params={"query": query, "k": k}) for query in asked]
                answers = [request.result()["topk"] for request in requests]
        else:
            answers = []
        try:
            found = {
                query: rank_hits(((_passage(record), float(record["score"])) for record in answer), k)
                for query, answer in zip(asked, answers, strict=True)
            }
        except (KeyError, TypeError, ValueError) as error:
            raise IndexFolderError(f"{self.url}: answered with something else than passages ({error!r})") from error
        return [list(found.get(query, [])) for query in queries]

    def _send(self, method: str, path: str | None = None, **content: Any) -> Any:
        import httpx

        try:
            url = httpx.URL(self.url)
            return self._client.request(method, url.join(path) if path else url, **content)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise IndexMissing(
                f"{self.url}: no index server answers ({type(error).__name__}: {error}); "
                "start one with `knowgap serve-index`"
            ) from error

    def _ask(self, method: str, **content: Any) -> dict[str, Any]:
        response = self._send(method, **content)
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or not ("results" in answer or "topk" in answer):
            reason = answer.get("message") if isinstance(answer, dict) else None
            raise IndexFolderError(f"{self.url}: refused the search ({reason or f'status {response.status_code}'})")
        return answer

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _passage(record: dict[str, Any]) -> Passage:
    """A passage from a hit; other servers give no title, but put it before the text, with a bar between."""
    if "passage" in record:
        return Passage(str(record["pid"]), str(record.get("title", "")), str(record["passage"]))
    title, bar, text = str(record["text"]).partition(" | ")
    return Passage(str(record["pid"]), title if bar else "", text if bar else title)
