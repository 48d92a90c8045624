"""An index over HTTP, for programs on other machines and for `dspy.ColBERTv2`.

    GET  /?query=…&k=10                     one query, in the protocol of dspy.ColBERTv2
    POST /  {"query": "…", "k": 10}         the same
    POST /  {"queries": ["…", …], "k": 10}  many queries at once, for `RemoteRetriever`
    GET  /health                            what is served: its engine, its digests, and how thoroughly it is searched

One query is answered with `{"topk": [{"pid", "text", "long_text", "title", "passage", "score", "rank"}, …]}`, several
with `{"results": [[…], …]}`, and what cannot be answered with `{"error": true, "message": "…"}`. Hosted servers of the
protocol put title and passage into `text`, with a bar between them; so does this one.
"""

from __future__ import annotations

import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from typing_extensions import Self

from knowgap.errors import KnowgapError, UsageError
from knowgap.retrieval.passage import Hit, Retriever

__all__ = ["IndexServer"]

_LOG = logging.getLogger(__name__)
_LARGEST_BODY = 4 << 20
_LARGEST_K = 1000
_SECONDS_FOR_A_REQUEST = 30


class IndexServer:
    """Serves a retriever until it is stopped; requests that have begun are answered before that.

    Args:
        retriever: what to serve.
        host: the address to listen on; the default is seen by this machine only.
        port: the port; 0 takes a free one.

    Raises:
        UsageError: the address cannot be used.
    """

    def __init__(self, retriever: Retriever, *, host: str = "127.0.0.1", port: int = 8893) -> None:
        try:
            self._server = _Server((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise UsageError(f"cannot listen on {host}:{port} ({error}); choose another port") from error
        self._server.retriever = retriever
        self._thread: threading.Thread | None = None
        self._stopping = threading.Lock()

    @property
    def url(self) -> str:
        """Where the index is served."""
        host, port = self._server.server_address[:2]
        return f"http://{host}:{port}"

    def serve_forever(self) -> None:
        """Serve in this thread until `stop` is called in another, or the process is interrupted."""
        try:
            self._server.serve_forever(poll_interval=0.1)
        finally:
            self._server.server_close()

    def start(self) -> Self:
        """Serve in a thread of its own; returns the server itself."""
        self._thread = threading.Thread(target=self.serve_forever, name="knowgap index server")
        self._thread.start()
        return self

    def stop(self) -> None:
        """Take no more requests, and return when those that have begun are answered."""
        with self._stopping:
            self._server.shutdown()
            if self._thread is not None:
                self._thread.join()
                self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for the requests that have begun
    request_queue_size = 256
    retriever: Retriever

    def handle_error(self, request: Any, client_address: Any) -> None:
        _LOG.debug("request from %s broke off", client_address, exc_info=True)


class _BadRequest(Exception):
    pass


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]  # the only server that uses this handler
    timeout = _SECONDS_FOR_A_REQUEST

    def do_GET(self) -> None:  # the name that http.server calls
        """Answer one query, or say what is served."""
        address = urlsplit(self.path)
        if address.path == "/health":
            self._send(200, _description(self.server.retriever))
            return
        fields = {name: values[0] for name, values in parse_qs(address.query, keep_blank_values=True).items()}
        self._answer(fields)

    def do_POST(self) -> None:  # the name that http.server calls
        """Answer one query or many."""
        try:
            size = int(self.headers.get("Content-Length", ""))
        except ValueError:
            self._send(411, _error("a request needs a Content-Length"))
            return
        if not 0 <= size <= _LARGEST_BODY:
            self._send(413, _error(f"a request may have {_LARGEST_BODY} bytes"))
            return
        try:
            fields = json.loads(self.rfile.read(size))
        except ValueError as error:
            self._send(400, _error(f"the body is not JSON: {error}"))
            return
        self._answer(fields)

    def _answer(self, fields: Any) -> None:
        try:
            queries, k = _read(fields)
            found = self.server.retriever.search(queries, k)
        except (_BadRequest, UsageError) as error:
            self._send(400, _error(str(error)))
        except KnowgapError as error:
            self._send(500, _error(str(error)))
        except Exception:  # whatever breaks, the client is told, and the server lives on
            _LOG.exception("a search failed")
            self._send(500, _error("the search failed; the server's log says why"))
        else:
            results = [[_hit(hit) for hit in hits] for hits in found]
            self._send(200, {"results": results} if "queries" in fields else {"topk": results[0]})

    def _send(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode("ascii")
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # the name in http.server
        """Log a request at the level of debugging; http.server would write it to the terminal."""
        _LOG.debug(format, *args)


def _description(retriever: Any) -> dict[str, Any]:
    """What is served, as far as it tells."""
    manifest = getattr(retriever, "manifest", None)
    described: dict[str, Any] = {"engine": getattr(manifest, "engine", type(retriever).__name__)}
    for name in ("digest", "corpus_digest"):
        described[name] = getattr(retriever, name, None) or getattr(manifest, name, None)
    quality = getattr(retriever, "quality", None)
    return described | {"quality": None if quality is None else str(quality)}


def _read(fields: Any) -> tuple[list[str], int]:
    """The queries of a request and its k."""
    if not isinstance(fields, dict) or ("query" not in fields and "queries" not in fields):
        raise _BadRequest("a request has a query, or a list of queries")
    queries = fields["queries"] if "queries" in fields else [fields["query"]]
    if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
        raise _BadRequest("queries must be strings")
    try:
        k = int(fields.get("k", 10))
    except (TypeError, ValueError):
        raise _BadRequest(f"k = {fields['k']!r} is not a number") from None
    if not 1 <= k <= _LARGEST_K:
        raise _BadRequest(f"k = {k}: must lie between 1 and {_LARGEST_K}")
    return queries, k


def _hit(hit: Hit) -> dict[str, Any]:
    passage = hit.passage
    text = f"{passage.title} | {passage.text}" if passage.title else passage.text
    return {
        "pid": passage.id,
        "text": text,
        "long_text": text,
        "title": passage.title,
        "passage": passage.text,
        "score": hit.score,
        "rank": hit.rank,
    }


def _error(message: str) -> dict[str, Any]:
    return {"error": True, "message": message}
