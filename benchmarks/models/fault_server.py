"""An OpenAI-compatible server in front of the embedded reader, which fails in many ways, and keeps account of it.

A request is known by its inputs and output fields, in whichever format it asks for them. Whether and how the n-th
answer to it fails depends on these, n and the seed alone.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dspy.lm15 import Message, Request, TextPart

from knowgap.lms.embedded.engine import ExtractiveEngine
from knowgap.lms.embedded.inputs import read_prompt
from models.chat_protocol import completion, serve_connection

STATUS = {
    "500": (500, "", "oops"),
    "502, a page": (502, "", "<html><body>Bad gateway</body></html>"),
    "503": (503, "", '{"error": {"message": "overloaded"}}'),
    "429": (429, "", '{"error": {"message": "too many requests"}}'),
    "429 with Retry-After": (429, "Retry-After: 1\r\n", '{"error": {"message": "too many requests"}}'),
    "page with 200": (200, "", "<html><body>Log in to the proxy</body></html>"),
    "empty body": (200, "", ""),
    "no choices": (200, "", '{"id": "1", "object": "chat.completion", "model": "m", "choices": []}'),
}
MESSAGE: dict[str, dict[str, Any]] = {
    "empty content": {"content": ""},
    "null content": {"content": None},
    "refusal": {"content": None, "refusal": "I cannot help with that."},
    "prose": {"content": "I am afraid that I do not know what to say about this."},
}
BROKEN = ("reset before the head", "reset after the head", "cut JSON", "no UTF-8", "slow")
CUT = "finish_reason length"
KINDS = (*STATUS, *BROKEN, *MESSAGE, CUT)


class FaultServer:
    """What the server was asked and how it answered.

    Attributes:
        api_base: its address for an OpenAI client.
        share: of requests that fail.
        served: for each request, in order, how it was answered each time: a kind, or "" for a sound reply.
    """

    def __init__(self, share: float, seed: int, slow: float) -> None:
        self.share, self.seed, self.slow, self.api_base = share, seed, slow, ""
        self.served: defaultdict[str, list[str]] = defaultdict(list)
        self._engine = ExtractiveEngine()

    @contextmanager
    def reliable(self) -> Iterator[None]:
        """Let no answer fail in this context."""
        share, self.share = self.share, 0.0
        yield
        self.share = share

    def counts(self) -> dict[str, Counter[str]]:
        """By kind: calls, asked again, of requests that got a sound reply at some time, of those that got none."""
        counts = {kind: Counter[str]() for kind in KINDS}
        for answers in self.served.values():
            for n, kind in enumerate(answers):
                if kind:
                    outcome = "recovered" if "" in answers else "lost"
                    counts[kind] += Counter({"calls": 1, "asked again": n + 1 < len(answers), outcome: 1})
        return counts

    def sound_replies(self) -> Counter[str]:
        """How many sound replies each request got."""
        return Counter({request: answers.count("") for request, answers in self.served.items()})

    def fault(self, request: str) -> str:
        """Choose the kind of fault of the next answer to a request, or none, and keep account of it."""
        answers = self.served[request]
        chance = random.Random(f"{self.seed} {request} {len(answers)}")
        answers.append(chance.choice(KINDS) if chance.random() < self.share else "")
        return answers[-1]

    def completion(self, asked: Request, kind: str) -> dict[str, Any]:
        """Make the body of a chat completion, by the embedded reader, with a fault of `MESSAGE` or `CUT`."""
        reply = self._engine.complete(asked)
        text = reply.message.text or ""
        message = {"content": text[: len(text) // 2] if kind == CUT else text, **MESSAGE.get(kind, {})}
        read, written = reply.usage.input_tokens or 0, reply.usage.output_tokens or 0
        return completion("m", message, read, written, finish_reason="length" if kind == CUT else "stop")

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        await serve_connection(reader, writer, self._answer)

    async def _answer(self, _: str, body: bytes, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection goes on."""
        asked = _request(json.loads(body))
        prompt = read_prompt(asked.system, asked.messages[-1].text)
        kind = self.fault(json.dumps([prompt.inputs, prompt.outputs], default=str))
        if kind == "reset before the head":
            return _reset(writer)
        status, header, text = STATUS.get(kind, (200, "", ""))
        content = text.encode() if kind in STATUS else json.dumps(self.completion(asked, kind)).encode()
        if kind == "no UTF-8":
            content = content.replace(b'"assistant"', b'"\xff\xfe"')
        elif kind == "cut JSON":
            content = content[: len(content) // 2]
        elif kind == "slow":
            await asyncio.sleep(self.slow)
        head = f"HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\n{header}"
        writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode())
        if kind == "reset after the head":
            writer.write(content[:20])
            await writer.drain()
            return _reset(writer)
        writer.write(content)
        await writer.drain()
        return True


def _request(body: Mapping[str, Any]) -> Request:
    turns = [(message["role"], message["content"]) for message in body["messages"]]
    system = "".join(text for role, text in turns if role == "system")
    return Request("m", tuple(Message(role, (TextPart(text),)) for role, text in turns if role != "system"), system)


def _reset(writer: asyncio.StreamWriter) -> bool:
    """Close the connection by a reset."""
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


@contextmanager
def fault_server(share: float, *, seed: int = 0, slow: float = 5.0) -> Iterator[FaultServer]:
    """Run a server in another thread.

    Args:
        share: of requests that fail, from 0 to 1.
        seed: of the choice of faults.
        slow: seconds that a slow answer takes.
    """
    service, loop, ready = FaultServer(share, seed, slow), asyncio.new_event_loop(), threading.Event()

    async def serve() -> None:
        server = await asyncio.start_server(service.connection, "127.0.0.1", 0, backlog=1024)
        service.api_base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        ready.set()
        await ended.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    ended = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait()
    try:
        yield service
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()
