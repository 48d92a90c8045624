"""Serve a program over HTTP.

    GET  /                       a page to ask on
    POST /v1/ask                 {"question": "…"}: {"question", "answer", "passages", "citations", "cost"}
                                 {"question": "…", "stream": true}: server-sent events: `step` for each step of the
                                 trace as it happens, then `answer` or `error`
                                 {"question": "…", "citations": false}: sooner, without the citations
    POST /v1/chat/completions    OpenAI's protocol: see `openai_protocol`
    GET  /v1/models              the program, as a model of that protocol
    GET  /healthz                "ok" once the program is warmed up
    GET  /metrics                what is counted, for Prometheus

Errors are `{"error": {"message", "type", "code"}}`: 400 for a request that is not as above, 401 without the key, 403
for the name of another host, 404 for another model, 413 if the body is too large, 415 if it is not JSON, 429 if as many
questions are being answered as may be, 500 if answering fails, 502 if the language model does not answer, and 504 if
there is no answer before the deadline. A client that disconnects ends the work on its question: no call to the language
model or the index begins after that.
"""

from __future__ import annotations

import contextlib
import ipaddress
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import dspy
import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from pydantic import BaseModel, ConfigDict, ValidationError

from knowgap.errors import MissingDependency
from knowgap.programs.base import Program
from knowgap.retrieval.http.listening import HTTPServer
from knowgap.service.answering import Answer, Answering, Problem, StepTold
from knowgap.service.openai_protocol import ChatRequest, completion, completion_chunks

try:
    import prometheus_client as prometheus
    from starlette.applications import Starlette
    from starlette.datastructures import Headers
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
    from starlette.routing import Route
    from starlette.types import ASGIApp, Receive, Scope, Send
except ImportError as error:
    raise MissingDependency(f"{error.name} is not installed; `pip install 'knowgap[serve]'`") from error

__all__ = ["ProgramServer"]

_MAX_BODY = 1 << 20  # bytes
_TYPES = {401: "authentication_error", 429: "rate_limit_error"}


class AskRequest(BaseModel):
    """The body of a request to /v1/ask."""

    model_config = ConfigDict(extra="forbid", strict=True)

    question: str
    stream: bool = False
    citations: bool = True


class ProgramServer(HTTPServer):
    """Serves a program until it is stopped.

    Args:
        program: the program, with its index; what its first question would wait for is loaded here.
        lm: the language model that it asks.
        max_questions: how many questions are answered at the same time.
        deadline: seconds within which a question is answered.
        host: the address to listen on; the default is reachable from this machine only.
        port: the port; 0 takes a free one.
        key: what clients send as `Authorization: Bearer KEY`; None asks for none, and then a server on a loopback
            address answers only to loopback names, so that no page of another site reaches it through a browser.
        grace: seconds that questions in progress get after `stop`, Ctrl-C or SIGTERM.

    Raises:
        UsageError: the address cannot be used.
    """

    def __init__(
        self,
        program: Program,
        lm: dspy.BaseLM,
        *,
        max_questions: int = 32,
        deadline: float = 300.0,
        host: str = "127.0.0.1",
        port: int = 8894,
        key: str | None = None,
        grace: float = 60.0,
    ) -> None:
        self._answering = Answering(program, lm, max_questions=max_questions, deadline=deadline)
        self._page = _templates().get_template("page.html.jinja")
        self._answering.warm_up()
        routes = [
            Route("/", self._show_page),
            Route("/v1/ask", self._ask, methods=["POST"]),
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/v1/models", self._models),
            Route("/healthz", self._health),
            Route("/metrics", self._metrics),
        ]
        guard = Middleware(_Guard, key=key, only_loopback=key is None and _is_loopback(host))
        application = Starlette(routes=routes, middleware=[guard], exception_handlers={HTTPException: _refuse})
        super().__init__(application, host=host, port=port, grace=grace)

    @property
    def name(self) -> str:
        """The program's name, which stands for a model's."""
        return self._answering.name

    async def _show_page(self, request: Request) -> Response:
        nonce = secrets.token_urlsafe(16)
        policy = f"default-src 'none'; connect-src 'self'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; "
        policy += "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        headers = {"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff"}
        return HTMLResponse(self._page.render(name=self._answering.name, nonce=nonce), headers=headers)

    async def _health(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _metrics(self, request: Request) -> Response:
        content = prometheus.generate_latest(self._answering.metrics)
        return Response(content, media_type=prometheus.CONTENT_TYPE_LATEST)

    async def _models(self, request: Request) -> Response:
        model = {"id": self._answering.name, "object": "model", "created": 0, "owned_by": "knowgap"}
        return _json(200, {"object": "list", "data": [model]})

    async def _ask(self, request: Request) -> Response:
        asked = await _read(request, AskRequest)
        wanted = {"steps": asked.stream, "citations": asked.citations}
        items = self._answering.answer(asked.question, request.receive, **wanted)
        if asked.stream:
            return await _Events.begin(items, _events)
        return _json(200, await _last(items))

    async def _chat(self, request: Request) -> Response:
        asked = await _read(request, ChatRequest)
        if asked.model != self._answering.name:
            raise HTTPException(404, f"there is no model {asked.model!r}; this server has {self._answering.name!r}")
        try:
            question = asked.question()
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        wanted = {"steps": bool(asked.stream), "citations": asked.citations}
        items = self._answering.answer(question, request.receive, **wanted)
        if asked.stream:
            return await _Events.begin(items, lambda items: completion_chunks(items, asked))
        return _json(200, completion(await _last(items), asked))


async def _last(items: AsyncGenerator[StepTold | Answer, None]) -> dict[str, Any]:
    """The answer, at the end of the steps."""
    answer: dict[str, Any] = {}
    async with contextlib.aclosing(items):
        try:
            async for item in items:
                answer = item
        except Problem as problem:
            raise HTTPException(problem.status, problem.message) from problem
    return answer


class _Events(StreamingResponse):
    """Server-sent events; the generator behind them is closed at their end, however they end."""

    @classmethod
    async def begin(cls, items: AsyncGenerator[StepTold | Answer, None], written: Any) -> _Events:
        """Wait for the first step, so that a question that cannot be asked is answered with its status.

        Args:
            items: the steps and the answer.
            written: makes the texts of the events from them.
        """
        try:
            first = await anext(items)
        except Problem as problem:
            raise HTTPException(problem.status, problem.message) from problem

        async def all_items() -> AsyncGenerator[StepTold | Answer, None]:
            yield first
            async for item in items:
                yield item

        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        response = cls(written(all_items()), media_type="text/event-stream", headers=headers)
        response._items = items
        return response

    _items: AsyncGenerator[StepTold | Answer, None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with contextlib.aclosing(self._items):
            await super().__call__(scope, receive, send)


async def _events(items: AsyncIterator[StepTold | Answer]) -> AsyncIterator[bytes]:
    """The events of /v1/ask."""
    try:
        async for item in items:
            name = "answer" if isinstance(item, Answer) else "step"
            yield b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(item))
    except Problem as problem:
        yield b"event: error\ndata: %s\n\n" % orjson.dumps(_error_record(problem.status, problem.message))


class _Guard:
    """Answers 401 without the key, and 403 to what a page of another site sends through a browser."""

    def __init__(self, app: ASGIApp, key: str | None, only_loopback: bool) -> None:
        self._app, self._key, self._only_loopback = app, key, only_loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = self._refusal(scope["path"], Headers(scope=scope)) if scope["type"] == "http" else None
        await (response or self._app)(scope, receive, send)

    def _refusal(self, path: str, headers: Headers) -> Response | None:
        if self._only_loopback:
            host = headers.get("host", "").rsplit(":", 1)[0].strip("[]")
            if not _is_loopback(host):
                return _error(403, f"this server answers to 127.0.0.1 and localhost, not to {host!r}")
        if self._key is not None and path not in ("/", "/healthz"):
            sent = headers.get("authorization", "").removeprefix("Bearer ")
            if not secrets.compare_digest(sent.encode(), self._key.encode()):
                return _error(401, "send the key of this server: Authorization: Bearer KEY")
        return None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _read(request: Request, kind: type[Any]) -> Any:
    """Read and check the body of a request.

    Raises:
        HTTPException: it is too large, not JSON, or malformed.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "send JSON: Content-Type: application/json")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BODY:
            raise HTTPException(413, f"the body has more than {_MAX_BODY} bytes")
    try:
        return kind.model_validate_json(bytes(body))
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, problem["loc"]))
        raise HTTPException(400, f"{field}: {problem['msg']}" if field else problem["msg"]) from error


def _json(status: int, content: Mapping[str, Any]) -> Response:
    return Response(orjson.dumps(content), status, media_type="application/json")


def _error_record(status: int, message: str) -> dict[str, Any]:
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}


def _error(status: int, message: str) -> Response:
    response = _json(status, _error_record(status, message))
    if status == 429:
        response.headers["Retry-After"] = "1"
    return response


async def _refuse(request: Request, error: Any) -> Response:
    return _error(error.status_code, error.detail)


def _templates() -> Environment:
    loader = PackageLoader("knowgap.service")
    return Environment(loader=loader, autoescape=select_autoescape(default=True), undefined=StrictUndefined)
