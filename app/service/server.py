"""Serve a program and its index over HTTP.

docs/service.md lists the addresses; `openai_protocol` and `searching` describe their formats.

Errors are `{"error": {"message", "type", "param", "code"}}`: 400 for a request that is not as described there, 401
without the key, 403 for the name of another host, 404 for another address or model, 405 (with `Allow`) for another
method, 413 if the body is too large, 415 if it is not JSON, 429 if as many questions are being answered as may be, 500
if answering fails, 502 if the language model does not answer, and 504 if there is no answer before the deadline. 500
and 502 also have an `id`, under which the log has the cause. The status is 503 if no document can be searched, or if
too many connections are open, which uvicorn says in plain text. If a client disconnects, the work on its question ends:
no call to the language model or the index begins after that.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import socket
import threading
from functools import partial
from typing import Any

import dspy
import orjson
import uvicorn
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BaseModel, ConfigDict
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from typing_extensions import Self

from knowgap.errors import KnowgapError, UsageError
from knowgap.lms.providers import EXTRACTIVE
from knowgap.programs.base import Program
from knowgap.service.answering import Answering
from knowgap.service.openai_protocol import ChatRequest, Reply
from knowgap.service.requests import Guard, Problem, is_loopback, json_response, read_request, send_events
from knowgap.service.searching import SearchRequest, describe, list_documents, search
from knowgap.signatures.types import SubAnswer

_CONNECTIONS = 512
"""The most open connections; uvicorn answers further ones with 503. Most systems allow a process 1,024 files."""
_GRACE = 30  # seconds that requests in progress get after `stop`, Ctrl-C or SIGTERM


class AskRequest(BaseModel):
    """The body of a request to /v1/ask."""

    model_config = ConfigDict(extra="forbid", strict=True)

    question: str
    stream: bool = False
    said: list[SubAnswer] = []


class Server:
    """Serves a program and its index until it is stopped; in a `with` block, from another thread.

    Args:
        program: the program; what its first question needs is loaded first.
        lm: the language model that it asks; None takes the one that DSPy is configured with.
        max_questions: how many questions are answered at the same time.
        deadline: seconds within which a question or a search is answered.
        host: the address to listen on; the default is reachable from this machine only.
        port: the port; 0 takes a free one.
        key: what clients send as `Authorization: Bearer KEY`, in printable ASCII; None, on a loopback address only,
            asks for none.

    Attributes:
        name: the program's name, which OpenAI's protocol uses as that of a model.
        url: the address.

    Raises:
        UsageError: the address cannot be used or needs a key, or no client can send the key.
    """

    def __init__(
        self,
        program: Program,
        lm: dspy.BaseLM | None = None,
        *,
        max_questions: int = 32,
        deadline: float = 300.0,
        host: str = "127.0.0.1",
        port: int = 8894,
        key: str | None = None,
    ) -> None:
        if key is None and not is_loopback(host):
            raise UsageError(f"others can reach {host}: set a key that clients have to send (--key)")
        if key is not None and not re.fullmatch("[!-~]([ -~]*[!-~])?", key):
            raise UsageError("clients cannot send this key (--key): take printable ASCII, without spaces around it")
        lm, index = lm or dspy.settings.lm, program.retriever
        self._answering = Answering(program, lm, max_questions=max_questions, deadline=deadline)
        self._answering.warm_up()
        self.name, self._deadline = self._answering.name, deadline
        self._index: Any = index
        templates = Environment(loader=PackageLoader("knowgap.service"), autoescape=True, undefined=StrictUndefined)
        self._page = templates.get_template("page.html.jinja", globals={"embedded": lm.model == EXTRACTIVE})
        routes = [
            Route("/", self._show_page),
            Route("/healthz", self._health),
            Route("/documents", lambda _: json_response(list_documents(index))),
            Route("/v1/ask", self._ask, methods=["POST"]),
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/v1/models", self._models),
            Route("/v1/models/{name:path}", self._models),
        ]
        if index is not None:
            routes.append(Route("/search", self._search, methods=["GET", "POST"]))
        # After an error that only the handler of `Exception` takes, the connection is closed.
        refused = (HTTPException, Problem, KnowgapError, OSError, Exception)
        application = Starlette(
            routes=routes,
            middleware=[Middleware(Guard, key=key)],
            exception_handlers=dict.fromkeys(refused, self._refuse),
        )
        try:
            self._socket = socket.create_server((host, port))
        except (OSError, OverflowError) as error:
            raise UsageError(f"cannot listen on {host}:{port} ({error}); choose another address or port") from error
        self.url = "http://{}:{}".format(*self._socket.getsockname())
        config = uvicorn.Config(
            application,
            lifespan="off",
            ws="none",
            log_config=None,
            log_level="critical",
            access_log=False,
            limit_concurrency=_CONNECTIONS,
            timeout_graceful_shutdown=_GRACE,
        )
        self._uvicorn = uvicorn.Server(config)
        self._thread = threading.Thread(target=self.serve_forever, name="knowgap server")

    def serve_forever(self) -> None:
        """Serve in this thread until `stop` is called in another, or until Ctrl-C or SIGTERM."""
        try:
            self._uvicorn.run(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        """Accept no more requests; return when those in progress are answered or the grace period is over."""
        self._uvicorn.should_exit = True
        if self._thread.ident is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def _show_page(self, request: Request) -> Response:
        nonce = secrets.token_urlsafe(16)
        policy = f"default-src 'none'; connect-src 'self'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; "
        policy += "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        headers = {"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff"}
        return HTMLResponse(self._page.render(nonce=nonce), headers=headers)

    async def _health(self, request: Request) -> Response:
        index = None if self._index is None else await asyncio.to_thread(describe, self._index)
        return json_response({"status": "ok", "program": self.name, "index": index})

    async def _models(self, request: Request) -> Response:
        model = {"id": self.name, "object": "model", "created": 0, "owned_by": "knowgap"}
        if "name" not in request.path_params:
            return json_response({"object": "list", "data": [model]})
        self._check_model(request.path_params["name"])
        return json_response(model)

    def _check_model(self, name: str) -> None:
        if name != self.name:
            raise Problem(404, f"there is no model {name!r}; this server has {self.name!r}")

    async def _ask(self, request: Request) -> Response:
        asked = await read_request(request, AskRequest)
        answer, gone = self._answering.answer, request.receive
        answering = partial(answer, asked.question, gone, said=asked.said)
        return await send_events(answering, _event) if asked.stream else json_response(await answering())

    async def _chat(self, request: Request) -> Response:
        asked = await read_request(request, ChatRequest)
        self._check_model(asked.model)
        reply, gone = Reply(asked), request.receive
        if asked.is_task:
            answering = partial(self._answering.pass_on, asked.messages[-1].text, gone)
        else:
            answer = self._answering.answer
            answering = partial(answer, asked.question(), gone, said=asked.said())
        if asked.stream:
            return await send_events(answering, reply.event)
        return json_response(reply.whole(await answering()))

    async def _search(self, request: Request) -> Response:
        asked: Any = await read_request(request, SearchRequest)
        return json_response(await search(self._index, asked, request.receive, self._deadline))

    async def _refuse(self, request: Request, error: Any) -> Response:
        headers = None
        if isinstance(error, HTTPException):  # of the router: no such address, or another method
            headers, told = error.headers, f"{request.method} {request.url.path}: {error.detail}"
            error = Problem(error.status_code, told)
        response = Problem.of(error).response()
        response.headers.update(headers or {})
        return response


def _event(name: str, content: Any) -> bytes:
    """An event of /v1/ask."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(content))
