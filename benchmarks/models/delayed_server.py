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
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

_FIELD = re.compile(r"`\[\[ ## (\w+) ## \]\]`")
_KIND = re.compile(r"^\d+\. `(\w+)` \((.*?)\):", re.MULTILINE)
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


def reply(request: dict[str, Any]) -> dict[str, Any]:
    """Make the body of a chat completion."""
    text = request["messages"][-1]["content"]
    prompt = text if isinstance(text, str) else "".join(part.get("text", "") for part in text)
    kinds = dict(_KIND.findall(str(request["messages"][0]["content"])))
    outputs = _FIELD.findall(prompt.rpartition("Respond with")[2])
    fields = {name: value(name, kinds.get(name, "str"), prompt) for name in outputs if name != "completed"}
    sections = {name: part if isinstance(part, str) else json.dumps(part) for name, part in fields.items()}
    content = "".join(f"[[ ## {name} ## ]]\n{part}\n\n" for name, part in sections.items()) + "[[ ## completed ## ]]"
    message = {"role": "assistant", "content": content}
    read, written = len(prompt) // 4, len(content.split())
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    about = {"id": "1", "object": "chat.completion", "created": 0, "model": request["model"], "usage": usage}
    return {**about, "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}


async def _serve(delay: float, at_once: int) -> None:
    """Answer requests; count them, the slot-seconds worked, the first arrival and the last reply since a count."""
    slots, counts = asyncio.Semaphore(at_once), dict[str, float]()

    async def answer(body: bytes) -> bytes:
        counts.setdefault("first", time.perf_counter())
        async with slots:
            begun = time.perf_counter()
            result = json.dumps(reply(json.loads(body))).encode()
            await asyncio.sleep(max(0.0, begun + delay - time.perf_counter()))
            counts["last"] = time.perf_counter()
            counts["worked"] = counts.get("worked", 0.0) + counts["last"] - begun
            counts["requests"] = counts.get("requests", 0) + 1
        return result

    def count() -> bytes:
        made = {"requests": 0, "worked": 0.0, "first": 0.0, "last": 0.0, **counts}
        counts.clear()
        return json.dumps({**made, "span": made["last"] - made["first"]}).encode()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:  # one request of HTTP/1.1 after another
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = re.search(r"(?im)^content-length: *(\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b""
                result = await answer(body) if head.startswith("POST") else count()
                start = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(result)}\r\n\r\n"
                writer.write(start.encode() + result)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client or the server has closed
        finally:
            writer.close()

    server = await asyncio.start_server(connect, "127.0.0.1", 0, backlog=4096)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    # Standard input ends when the process that started this one does.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


@dataclass(frozen=True)
class Server:
    """A running server.

    Attributes:
        api_base: its address for an OpenAI client.
        delay: seconds from the start of work on a request to its reply.
        at_once: requests that it works on at the same time; others wait.
    """

    api_base: str
    delay: float
    at_once: int

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
    """Run a server in another process; the arguments are those of `Server`."""
    command = [sys.executable, "-m", "models.delayed_server", str(delay), str(at_once)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=Path(__file__).parents[1], **pipes) as process:
        yield Server(f"http://127.0.0.1:{int(process.stdout.readline())}/v1", delay, at_once)


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1]), int(sys.argv[2])))
