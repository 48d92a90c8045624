"""Serve a program and its index over HTTP.

docs/service.md lists the addresses; `openai_protocol` and `searching` describe their formats.

Errors are `{"error": {"message", "type", "param", "code"}}`: 400 for a request that is not as described there, 401
without the key, 403 for the name of another host, 404 for another address or model, 413 if the body is too large, 415
if it is not JSON, 429 if as many questions are being answered as may be, 500 if answering fails, 502 if the language
model does not answer, and 504 if there is no answer before the deadline. The last three also have an `id`, under which
the log has the cause. The status is 503 if too many connections are open, no document can be searched yet, or the
server ends. If a client disconnects, the work on its question ends: no call to the language model or the index begins
after that.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from typing import Annotated, Any

import dspy
import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BaseModel, ConfigDict, Field
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from knowgap.errors import UsageError
from knowgap.lms.providers import EXTRACTIVE
from knowgap.programs.base import Program
from knowgap.service.answering import MAX_SAID, Answer, Answering, StepTold, last_of
from knowgap.service.events import Events
from knowgap.service.files import Files, list_documents
from knowgap.service.listening import HTTPServer
from knowgap.service.live_index import LiveIndex
from knowgap.service.openai_protocol import ChatRequest, Reply
from knowgap.service.requests import Guard, Problem, is_loopback, json_response, read_request
from knowgap.service.searching import Patterns, SearchRequest, describe, search
from knowgap.signatures.types import SubAnswer


class AskRequest(BaseModel):
    """The body of a request to /v1/ask."""

    model_config = ConfigDict(extra="forbid", strict=True)

    question: str
    stream: bool = False
    citations: bool = True
    said: Annotated[list[SubAnswer], Field(max_length=MAX_SAID)] = []
    files: Patterns = ()


class Server(HTTPServer):
    """Serves a program and its index until it is stopped.

    Args:
        program: the program; what its first question needs is loaded first, or in the background with a `LiveIndex`.
        lm: the language model that it asks; None takes the one that DSPy is configured with.
        max_questions: how many questions are answered at the same time.
        deadline: seconds within which a question or a search is answered.
        host: the address to listen on; the default is reachable from this machine only.
        port: the port; 0 takes a free one.
        key: what clients send as `Authorization: Bearer KEY`; None, on a loopback address only, asks for none.
        grace: seconds that requests in progress get after `stop`, Ctrl-C or SIGTERM.
        show_files: visitors may open the files that the index was made of; sources link to them.

    Attributes:
        name: the program's name, which OpenAI's protocol uses as that of a model.

    Raises:
        UsageError: the address cannot be used or needs a key, or there are no files to show.
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
        grace: float = 30.0,
        show_files: bool = False,
    ) -> None:
        if key is None and not is_loopback(host):
            raise UsageError(f"others can reach {host}: set a key that clients have to send (--key)")
        lm, index = lm or dspy.settings.lm, program.retriever
        files = Files(index) if show_files else None
        link = files.link if files is not None else None
        self._answering = Answering(program, lm, max_questions=max_questions, deadline=deadline, link=link)
        if isinstance(index, LiveIndex):  # its page can be opened before anything has been read
            threading.Thread(target=self._answering.warm_up, name="knowgap warm-up", daemon=True).start()
        else:
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
        if files is not None:
            routes.append(Route("/files/{name:path}", lambda request: files.respond(request.path_params["name"])))
        if index is not None:
            routes.append(Route("/search", self._search, methods=["GET", "POST"]))
        # After an error that only the handler of `Exception` takes, the connection is closed.
        refused = (HTTPException, Problem, OSError, Exception)
        application = Starlette(
            routes=routes,
            middleware=[Middleware(Guard, key=key)],
            exception_handlers=dict.fromkeys(refused, self._refuse),
        )
        super().__init__(application, host=host, port=port, grace=grace)

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
        items = self._answering.answer(
            asked.question,
            request.receive,
            said=asked.said,
            steps=asked.stream,
            citations=asked.citations,
            files=asked.files,
        )
        return await Events(items, _event).begun() if asked.stream else json_response(await last_of(items))

    async def _chat(self, request: Request) -> Response:
        asked = await read_request(request, ChatRequest)
        self._check_model(asked.model)
        if asked.is_task:
            items: Any = self._answering.pass_on(asked.messages[-1].text, request.receive, asked.sampling())
        else:
            items = self._answering.answer(
                asked.question(),
                request.receive,
                said=asked.said(),
                steps=bool(asked.stream),
                citations=asked.citations,
                sampling=asked.sampling(),
                files=asked.files,
            )
        reply = Reply(asked, str(request.base_url))
        if asked.stream:
            return await Events(items, reply.event).begun()
        return json_response(reply.whole(await last_of(items)))

    async def _search(self, request: Request) -> Response:
        asked: Any = await read_request(request, SearchRequest)
        return json_response(await search(self._index, asked, request.receive, self._deadline))

    async def _refuse(self, request: Request, error: Any) -> Response:
        if isinstance(error, HTTPException):  # of the router: no such address, or another method
            error = Problem(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
        return Problem.of(error).response()


def _event(item: StepTold | Answer | Problem) -> bytes:
    """An event of /v1/ask."""
    if isinstance(item, Problem):
        return b"event: error\ndata: %s\n\n" % orjson.dumps(item.record())
    return b"event: %s\ndata: %s\n\n" % (b"answer" if isinstance(item, Answer) else b"step", orjson.dumps(item))
