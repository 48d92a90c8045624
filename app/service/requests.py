"""Reading a request, waiting for its answer, sending it as events, and refusing it, for all addresses of the service.

Every refusal has one format, `{"error": {"message", "type", "param", "code"}}`, which is OpenAI's.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from knowgap.errors import IndexMissing, KnowgapError, LanguageModelUnreachable, UsageError

_LOG = logging.getLogger(__name__)
_MAX_BODY = 4 << 20  # bytes
_TYPES = {401: "authentication_error", 429: "rate_limit_error"}
_FREE_PATHS = ("/", "/healthz")
"""The paths that are answered without the key."""

_FIRST = 1.5
"""Seconds that the response waits for the first event, so that a refused question is answered with its status."""
_SILENCE = 15.0
"""Seconds after which a comment is sent; proxies close connections that are silent for 30 or 60 seconds."""
_COMMENT = b": still working on it\n\n"

Gone = Callable[[], Awaitable[object]]
"""Returns when the client has disconnected."""

Result = TypeVar("Result")
Body = TypeVar("Body", bound=BaseModel)


class Problem(Exception):
    """The reason why a request is not answered.

    Args:
        status: the HTTP status code; 499 if the client has disconnected, and the others as `server` lists them.
        message: one line.
        id: the id of the log message with the cause, if there is one.
    """

    def __init__(self, status: int, message: str, id: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.id = status, message, id

    @classmethod
    def of(cls, error: Exception) -> Problem:
        """Find the status for an error.

        The cause of a failure is written to the log only, since it may contain addresses, keys and options of the
        server's operator; the client gets the id of the log message.
        """
        if isinstance(error, cls):
            return error
        if isinstance(error, UsageError):
            return cls(400, str(error))
        if isinstance(error, IndexMissing):  # the folder is still being read
            return cls(503, str(error))
        is_absent, name = isinstance(error, LanguageModelUnreachable), secrets.token_hex(4)
        told = "the language model does not answer" if is_absent else "the request failed"
        _LOG.error("request %s failed: %s", name, error, exc_info=None if isinstance(error, KnowgapError) else error)
        return cls(502 if is_absent else 500, f"{told}; the server's log states the cause under {name}", name)

    def record(self) -> dict[str, Any]:
        """Return the body of the response."""
        kind = _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        record = {"message": self.message, "type": kind, "param": None, "code": self.status}
        return {"error": {**record, "id": self.id} if self.id else record}

    def response(self) -> Response:
        """Return the response."""
        response = json_response(self.record(), self.status)
        if self.status == 429:
            response.headers["Retry-After"] = "1"
        return response


async def patiently(work: Awaitable[Result], gone: Gone, seconds: float) -> Result:
    """Wait for a result; cancel the work if the wait ends before.

    Raises:
        Problem: the client has disconnected (499), or the time is over (504).
    """
    task, left = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    try:
        await asyncio.wait({task, left}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if left.done():
            raise Problem(499, "the client has disconnected")
        raise Problem(504, f"no answer within {seconds:g} s")
    finally:
        left.cancel()
        if task.cancel():
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def read_request(request: Request, kind: type[Body]) -> Body:
    """Read and check the body of a request, or the query of its address if it is a GET.

    Raises:
        Problem: it is too large (413), not JSON (415), or malformed (400).
    """
    is_get = request.method in ("GET", "HEAD")
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not is_get and media_type != "application/json":
        raise Problem(415, "send JSON: Content-Type: application/json")
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MAX_BODY:
                raise Problem(413, f"the body has more than {_MAX_BODY} bytes")
        if is_get:
            return kind.model_validate(dict(request.query_params))
        return kind.model_validate_json(bytes(body))
    except ClientDisconnect:
        raise Problem(499, "the client has disconnected") from None
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        field, said = ".".join(map(str, problem["loc"])), problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            said = f"there is no such field; the known fields are {', '.join(kind.model_fields)}"
        raise Problem(400, f"{field}: {said}" if field else said) from error


def json_response(content: Any, status: int = 200) -> Response:
    """Make a response of a JSON value."""
    return Response(orjson.dumps(content), status, media_type="application/json")


async def send_events(
    answering: Callable[..., Awaitable[Any]], written: Callable[[str, Any], bytes]
) -> StreamingResponse:
    """A response that sends the steps of an answer as they happen, then the answer. Its end ends the answering.

    Args:
        answering: finds the answer, and calls what it is given with each step.
        written: makes an event of its name, `step`, `answer` or `error`, and of its content.

    Raises:
        Problem: the question is refused at once.
    """
    told: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

    async def answer() -> None:
        try:
            last = "answer", await answering(tell=lambda step: told.put_nowait(("step", step)))
        except Exception as error:
            last = "error", Problem.of(error)
        told.put_nowait(last)

    async def following(seconds: float) -> tuple[str, Any] | None:
        with contextlib.suppress(asyncio.TimeoutError):
            return await asyncio.wait_for(told.get(), seconds)
        return None

    async def events(event: tuple[str, Any] | None) -> AsyncIterator[bytes]:
        try:
            while event is None or event[0] == "step":
                yield _COMMENT if event is None else written(*event)
                event = await following(_SILENCE)
            yield written(event[0], event[1].record() if event[0] == "error" else event[1])
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    task = asyncio.ensure_future(answer())
    first = await following(_FIRST)
    if first is not None and first[0] == "error":
        raise first[1]
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events(first), media_type="text/event-stream", headers=headers)


class Guard:
    """Middleware that refuses requests without the key (401), or by another name to a server without one (403).

    A page of another site could otherwise reach such a server through a browser, under a name of its own.

    Args:
        app: the application.
        key: the key; None for a server on a loopback address, which needs none.
    """

    def __init__(self, app: ASGIApp, key: str | None) -> None:
        self._app, self._key = app, key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        problem = self._refusal(scope["path"], Headers(scope=scope))
        await (problem.response() if problem is not None else self._app)(scope, receive, send)

    def _refusal(self, path: str, headers: Headers) -> Problem | None:
        if self._key is None:
            host = headers.get("host", "")
            if not is_loopback(re.sub(r":\d*$", "", host).strip("[]")):
                return Problem(403, f"this server answers only to names of this machine (localhost), not to {host!r}")
        elif path not in _FREE_PATHS and not self._has_key(headers):
            return Problem(401, "send the key of this server: Authorization: Bearer KEY")
        return None

    def _has_key(self, headers: Headers) -> bool:
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and secrets.compare_digest(sent.strip().encode(), str(self._key).encode())


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's loopback, which other machines cannot reach."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
