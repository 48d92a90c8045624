"""An OpenAI-compatible server that answers up to a number of requests at once after a fixed delay, and counts them.

`with delayed_server(0.2, 64) as server:` runs it in another process, which ends with the block or with the process that
started it. The replies are well-formed for any signature, since the field markers in the prompt tell the output fields.
They keep a method going until its caps: knowledge is always missing, notes always improve, and questions fall into two
parts, each of which has relevant passages.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

_FIELD = re.compile(r"`\[\[ ## (\w+) ## \]\]`")
_KIND = re.compile(r"^\d+\. `(\w+)` \((.*?)\):", re.MULTILINE)
_PIECES = re.compile(r"\s*\S+")
_PART = "what is known about part"


def value(name: str, kind: str, prompt: str) -> Any:
    """Make a value for an output field from its name and type."""
    mark = hashlib.sha256(prompt.encode()).hexdigest()[:8]
    match kind:
        case "bool":
            return name == "better" or (name == "relevant" and _PART in prompt)
        case "int":
            return 4
        case "float":
            return 0.75
        case "list[int]":
            return [1, 2]
        case "list[Statement]":
            return [{"statement": f"Statement {mark} follows from the passages.", "sources": [1]}]
        case "list[str]" if name == "questions":
            return [f"{_PART} {n} of {mark}?" for n in (1, 2)]
        case "list[str]":
            return [f"film of director {n} in {mark}" for n in (1, 2, 3)]
        case "str":
            return f"the {name} that belongs to {mark}"
    raise ValueError(f"no value for a field of type {kind}")


def reply(request: dict[str, Any]) -> dict[str, Any]:
    """Make the body of a chat completion."""
    text = request["messages"][-1]["content"]
    prompt = text if isinstance(text, str) else "".join(part.get("text", "") for part in text)
    kinds = dict(_KIND.findall(str(request["messages"][0]["content"])))
    outputs = _FIELD.findall(prompt.rpartition("Respond with")[2])
    fields = {name: value(name, kinds.get(name, "str"), prompt) for name in outputs if name != "completed"}
    content = "".join(
        f"[[ ## {name} ## ]]\n{part if isinstance(part, str) else json.dumps(part)}\n\n"
        for name, part in fields.items()
    )
    content += "[[ ## completed ## ]]"
    tokens = _PIECES.findall(content)
    logprobs = {"content": [{"token": t, "logprob": -0.25, "top_logprobs": []} for t in tokens]}
    more = {"logprobs": logprobs} if request.get("logprobs") else {}
    read = len(prompt) // 4
    usage = {"prompt_tokens": read, "completion_tokens": len(tokens), "total_tokens": read + len(tokens)}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}, **more}
    about = {"id": "1", "object": "chat.completion", "created": 0, "model": request["model"]}
    return {**about, "choices": [choice], "usage": usage}


class _Service:
    """Answers requests; counts them, the slot-seconds worked, the first arrival and the last reply since a count."""

    def __init__(self, delay: float, at_once: int) -> None:
        self.delay, self.slots = delay, asyncio.Semaphore(at_once)
        self.requests, self.worked, self.first, self.last = 0, 0.0, 0.0, 0.0

    async def answer(self, body: bytes) -> bytes:
        """Reply, after the delay, counted from when a slot is free."""
        self.first = self.first or time.perf_counter()
        async with self.slots:
            begun = time.perf_counter()
            result = json.dumps(reply(json.loads(body))).encode()
            await asyncio.sleep(max(0.0, begun + self.delay - time.perf_counter()))
            self.last = time.perf_counter()
            self.worked += self.last - begun
            self.requests += 1
        return result

    def counts(self) -> bytes:
        """Return the counts as JSON, and count from zero."""
        counts = {"requests": self.requests, "worked": self.worked, "span": self.last - self.first}
        self.requests, self.worked, self.first, self.last = 0, 0.0, 0.0, 0.0
        return json.dumps(counts).encode()

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of HTTP/1.1, one request after another."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = re.search(r"(?im)^content-length: *(\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b""
                result = await self.answer(body) if head.startswith("POST") else self.counts()
                start = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(result)}\r\n\r\n"
                writer.write(start.encode() + result)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client or the server has closed
        finally:
            writer.close()


async def _serve(delay: float, at_once: int) -> None:
    server = await asyncio.start_server(_Service(delay, at_once).connection, "127.0.0.1", 0, backlog=4096)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    # Standard input ends when the process that started this one does.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


class Server:
    """A running server.

    Attributes:
        api_base: its address for an OpenAI client.
        delay: in seconds.
        at_once: requests that it works on at the same time; others wait.
    """

    def __init__(self, port: int, delay: float, at_once: int) -> None:
        self.api_base, self.delay, self.at_once = f"http://127.0.0.1:{port}/v1", delay, at_once

    def counts(self) -> dict[str, float]:
        """Return `requests` answered, slot-seconds `worked` and their time `span` since the last call of this."""
        with urlopen(f"{self.api_base}/counts", timeout=60) as response:
            return json.load(response)

    def busy(self) -> float:
        """Return the fraction of its capacity used from the first request to the last reply since the last count."""
        counts = self.counts()
        return counts["worked"] / (self.at_once * counts["span"]) if counts["span"] else 0.0


@contextmanager
def delayed_server(delay: float, at_once: int) -> Iterator[Server]:
    """Run a server in another process.

    Args:
        delay: seconds from the start of work on a request to its reply.
        at_once: requests that are worked on at the same time.
    """
    command = [sys.executable, "-m", "models.delayed_server", str(delay), str(at_once)]
    process = subprocess.Popen(
        command, cwd=Path(__file__).parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Server(int(process.stdout.readline()), delay, at_once)
    finally:
        process.stdin.close()
        process.wait(timeout=30)
        process.stdout.close()


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1]), int(sys.argv[2])))
