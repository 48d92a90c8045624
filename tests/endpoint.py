"""An OpenAI-compatible endpoint in this process: it keeps what it was asked, and fails as it is told to."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import dspy
from support import in_chat_format

from knowgap.lms import make_lm

Fault = tuple[int, dict[str, str], str]
"""Status, headers and body of an answer that is no reply."""


@dataclass
class Endpoint:
    """What the endpoint is asked and how it behaves.

    Attributes:
        api_base: its address.
        bodies: the requests, as decoded JSON.
        faults: what it answers to the next requests, before it replies to any; "reset" closes the connection.
        fault_of: what it answers to a request with this text, as long as it returns something.
        reply_of: its reply to a request, or the reply, its tokens and its usage; None for a field of each name that the
            prompt asks for. It is cut off where it has as many words as the request allows tokens.
        usage_of: the tokens that it reports for a reply.
        delay_of: seconds before the reply to a prompt; the end of the block ends the wait.
    """

    api_base: str
    bodies: list[dict[str, Any]] = field(default_factory=list)
    faults: list[Fault | str] = field(default_factory=list)
    fault_of: Callable[[str], Fault | None] = lambda text: None
    reply_of: Callable[[dict[str, Any]], Any] = lambda body: None
    usage_of: Callable[[str], dict[str, int]] = lambda written: {"prompt_tokens": 10, "completion_tokens": 2}
    delay_of: Callable[[str], float] = lambda text: 0.0
    ended: threading.Event = field(default_factory=threading.Event)

    def prompts(self) -> list[str]:
        return [body["messages"][-1]["content"] for body in list(self.bodies)]

    def lm(self, **options: Any) -> dspy.LM:
        """A language model that it answers for."""
        return make_lm("openai/local", api_base=self.api_base, **options)


def reply(text: str) -> str:
    """A reply in the chat format to a prompt of DSPy's; one word to another prompt."""
    fields = re.findall(r"`\[\[ ## (\w+) ## \]\]`", text.rpartition("Respond with")[2])
    values: Mapping[str, Any] = dict.fromkeys(fields[:-1], "Tarn")  # the last mark says that it is completed
    return in_chat_format(values) if fields else "ready"


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            here.bodies.append(body)
            text = body["messages"][-1]["content"]
            fault = here.faults.pop(0) if here.faults else here.fault_of(text)
            if fault == "reset":
                self.close_connection = True
                return
            if here.ended.wait(here.delay_of(text)):
                self.close_connection = True
                return
            written, tokens, usage = here.reply_of(body), [], None
            if isinstance(written, tuple):
                written, tokens, usage = written
            written = reply(text) if written is None else written
            limit = body.get("max_completion_tokens") or body.get("max_tokens")
            end = "length" if limit and len(written.split()) >= limit else "stop"
            message = {"role": "assistant", "content": written}
            choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": end}
            choice |= {"logprobs": {"content": tokens}} if tokens else {}
            usage = usage or here.usage_of(written)
            answer = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
            status, headers, written = fault or (200, {}, json.dumps(answer | {"usage": usage}))
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(written.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        here = Endpoint(f"http://127.0.0.1:{server.server_address[1]}/v1")
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield here
        here.ended.set()
        server.shutdown()
        thread.join()
