"""Serve an index over HTTP, to `RemoteRetriever` and to `dspy.ColBERTv2`.

    GET  /?query=…&k=10                     one query, in the protocol of dspy.ColBERTv2
    POST /  {"query": "…", "k": 10}         the same
    POST /  {"queries": ["…", …], "k": 10}  many queries at once
    GET  /health                            the engine, the digests and the search quality of the index

One query is answered with `{"topk": [{"pid", "text", "long_text", "title", "passage", "score", "rank"}, …]}`, several
with `{"results": [[…], …]}`. `text` and `long_text` hold "title | passage", as on hosted servers of the protocol.

A request that cannot be answered gets `{"error": true, "message": "…"}`, with status 400 if it is not as above or over
a limit, 413 if its body is too large, 500 if the search fails, or 504 if there is no answer before the deadline. If too
many connections are open, the answer is 503 in plain text. A request whose client disconnects is dropped, unless its
search has begun.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Annotated, Any
from urllib.parse import parse_qsl

import anyio
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from knowgap.errors import KnowgapError, MissingDependency, UsageError
from knowgap.retrieval.http.listening import HTTPServer
from knowgap.retrieval.passage import Hit, Retriever

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
except ImportError as error:
    raise MissingDependency(f"{error.name} is not installed; `pip install 'knowgap[serve]'`") from error

__all__ = ["IndexServer"]

_LOG = logging.getLogger(__name__)
_MAX_BODY = 4 << 20  # bytes
_MAX_QUERIES = 256
_MAX_QUERY_LENGTH = 32_768  # characters
_MAX_K = 1000

Query = Annotated[str, Field(max_length=_MAX_QUERY_LENGTH)]


class SearchRequest(BaseModel):
    """The fields of a request: either a query or queries."""

    model_config = ConfigDict(extra="forbid")

    query: Query | None = None
    queries: Annotated[list[Query], Field(max_length=_MAX_QUERIES)] | None = None
    k: Annotated[int, Field(ge=1, le=_MAX_K)] = 10


class IndexServer(HTTPServer):
    """Serves a retriever until it is stopped.

    Args:
        retriever: the index.
        host: the address to listen on; the default is reachable from this machine only.
        port: the port; 0 takes a free one.
        threads: how many searches run at the same time; other requests wait.
        deadline: seconds within which a request is answered, waiting included.
        grace: seconds that requests in progress get after `stop`, Ctrl-C or SIGTERM.

    Raises:
        UsageError: the address cannot be used.
    """

    def __init__(
        self,
        retriever: Retriever,
        *,
        host: str = "127.0.0.1",
        port: int = 8893,
        threads: int = 8,
        deadline: float = 60.0,
        grace: float = 0.5,
    ) -> None:
        self._retriever, self._deadline = retriever, deadline
        self._searches = _SearchThreads(threads)
        routes = [Route("/health", self._health), Route("/{path:path}", self._answer, methods=["GET", "POST"])]
        application = Starlette(routes=routes, exception_handlers={HTTPException: _refuse})
        super().__init__(application, host=host, port=port, grace=grace)

    def _close(self) -> None:
        self._searches.close()

    async def _health(self, request: Request) -> Response:
        manifest = getattr(self._retriever, "manifest", None)
        health = {"engine": getattr(manifest, "engine", type(self._retriever).__name__)}
        for name in ("digest", "corpus_digest"):
            health[name] = getattr(self._retriever, name, None) or getattr(manifest, name, None)
        quality = getattr(self._retriever, "quality", None)
        return _json(200, health | {"quality": None if quality is None else str(quality)})

    async def _answer(self, request: Request) -> Response:
        with anyio.move_on_after(self._deadline):
            search = await _read(request)
            answer = asyncio.wrap_future(self._searches.submit(self._search, search))
            disconnect = asyncio.ensure_future(request.receive())  # the body is read: the next event is the last
            try:
                await asyncio.wait({answer, disconnect}, return_when=asyncio.FIRST_COMPLETED)
                return answer.result() if answer.done() else Response(status_code=499)  # nobody reads it
            finally:
                answer.cancel()
                disconnect.cancel()
        raise HTTPException(504, f"no answer within {self._deadline:g} s; send fewer queries at a time")

    def _search(self, request: SearchRequest) -> Response:
        queries = request.queries if request.queries is not None else [request.query or ""]
        try:
            lists = self._retriever.search(queries, request.k)
            results = [[_record(hit) for hit in hits] for hits in lists]
            return _json(200, {"topk": results[0]} if request.queries is None else {"results": results})
        except UsageError as error:
            return _error(400, str(error))
        except KnowgapError as error:
            return _error(500, str(error))
        except Exception:  # the client is told, and the server goes on
            _LOG.exception("a search failed")
            return _error(500, "the search failed; the server's log says why")


class _SearchThreads:
    """A fixed number of threads. They are daemons: a search that hangs does not keep the process from ending."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._tasks: queue.SimpleQueue[tuple[Future[Response], Callable[[], Response]] | None] = queue.SimpleQueue()
        for _ in range(number):
            threading.Thread(target=self._work, name="knowgap search", daemon=True).start()

    def submit(self, search: Callable[[SearchRequest], Response], request: SearchRequest) -> Future[Response]:
        """Queue a search; its future can be cancelled until a thread takes it."""
        future: Future[Response] = Future()
        self._tasks.put((future, functools.partial(search, request)))
        return future

    def close(self) -> None:
        """End the threads, each after its present search."""
        for _ in range(self._number):
            self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, search = task
            if future.set_running_or_notify_cancel():
                future.set_result(search())


async def _read(request: Request) -> SearchRequest:
    """Read and check a request.

    Raises:
        HTTPException: it is too large, malformed or over a limit.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BODY:
            raise HTTPException(413, f"the body has more than {_MAX_BODY} bytes")
    try:
        if request.method == "POST":
            search = SearchRequest.model_validate_json(bytes(body))
        else:
            pairs = parse_qsl(request.scope["query_string"].decode(), keep_blank_values=True, errors="strict")
            search = SearchRequest.model_validate(dict(pairs))
    except UnicodeDecodeError as error:
        raise HTTPException(400, "the address is not valid UTF-8") from error
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, problem["loc"]))
        raise HTTPException(400, f"{field}: {problem['msg']}" if field else problem["msg"]) from error
    if (search.query is None) == (search.queries is None):
        raise HTTPException(400, "a request has either a query, or a list of queries")
    return search


def _record(hit: Hit) -> dict[str, Any]:
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


def _json(status: int, content: dict[str, Any]) -> Response:
    return Response(json.dumps(content, allow_nan=False), status, media_type="application/json")


def _error(status: int, message: str) -> Response:
    return _json(status, {"error": True, "message": message})


async def _refuse(request: Request, error: Any) -> Response:
    return _error(error.status_code, error.detail)
