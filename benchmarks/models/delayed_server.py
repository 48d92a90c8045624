"""An OpenAI-compatible server that answers up to a number of requests at once after a fixed delay.

The replies are well-formed for any signature. They keep a method going until its caps: knowledge is always missing,
notes always improve, and questions fall into two parts, each of which has relevant passages.
"""

from __future__ import annotations

import asyncio
import hashlib
import multiprocessing
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from knowgap.errors import SignatureNotServed
from knowgap.lms.embedded.inputs import read_prompt, write_reply

_PART = "what is known about part"


def value(name: str, kind: str, prompt: str) -> Any:
    """Make a value for an output field from its name and type."""
    mark = hashlib.sha256(prompt.encode()).hexdigest()[:8]
    if kind == "list[str]" and name == "questions":
        return [f"{_PART} {n} of {mark}?" for n in (1, 2)]
    return {
        "bool": name == "better" or (name == "relevant" and _PART in prompt),
        "int": 4,
        "float": 0.75,
        "list[int]": [1, 2],
        "list[Statement]": [{"statement": f"Statement {mark} follows from the passages.", "sources": [1]}],
        "list[str]": [f"film of director {n} in {mark}" for n in (1, 2, 3)],
        "str": f"the {name} that belongs to {mark}",
    }[kind]


def _reply(request: dict[str, Any]) -> dict[str, Any]:
    """Make the body of a chat completion."""
    system, user = (request["messages"][place]["content"] for place in (0, -1))
    content = "yes"
    with suppress(SignatureNotServed):  # the question whether there is a model
        prompt = read_prompt(system, user)
        content = write_reply(prompt, {name: value(name, kind, user) for name, kind in prompt.outputs.items()})
    message = {"role": "assistant", "content": content}
    read, written = len(user) // 4, len(content.split())
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    about = {"id": "1", "object": "chat.completion", "created": 0, "model": request["model"], "usage": usage}
    return {**about, "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}


def _serve(listening: socket.socket, delay: float, at_once: int) -> None:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    slots = asyncio.Semaphore(at_once)

    async def answer(request: Request) -> JSONResponse:
        async with slots:
            begun = time.perf_counter()
            body = _reply(await request.json())
            await asyncio.sleep(begun + delay - time.perf_counter())
        return JSONResponse(body)

    routes = [Route("/v1/chat/completions", answer, methods=["POST"])]
    uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="warning")).run(sockets=[listening])


@contextmanager
def delayed_server(delay: float, at_once: int) -> Iterator[str]:
    """Run a server in another process, which works on `at_once` requests at the same time; others wait.

    Yields its address for an OpenAI client; `delay` is the seconds from the start of work on a request to its reply.
    """
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or each reply waits for 40 ms
        arguments = (listening, delay, at_once)
        process = multiprocessing.get_context("spawn").Process(target=_serve, args=arguments, daemon=True)
        process.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        process.terminate()
