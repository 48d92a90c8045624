"""What single requests and an endpoint that repeats the key can do to the service.

Odd requests have to be refused, and what follows them must not be answered as another request. When an endpoint fails
and repeats the model's key in its message, neither clients nor the log may get the key.
"""

from __future__ import annotations

import argparse
import http.client
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from service import MODEL
from service import _Service as Service
from table import Table

_KEY = "sk-4f1d0c8e7b2a9356-of-the-operator"
_ASK, _HOST = b"POST /v1/ask HTTP/1.1\r\n", b"Host: localhost\r\nContent-Type: application/json\r\n"
_NEXT = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
ODD: dict[str, bytes] = {
    "both lengths": _ASK + _HOST + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": _ASK + _HOST + b"Content-Length: 0\r\nContent-Length: 20\r\n\r\n",
    "a length below 0": _ASK + _HOST + b"Content-Length: -1\r\n\r\n",
    "a length with a sign": _ASK + _HOST + b"Content-Length: +0\r\n\r\n",
    "another coding": _ASK + _HOST + b"Transfer-Encoding: xchunked\r\n\r\n",
    "a coding in two lines": _ASK + _HOST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a chunk whose size is no number": _ASK + _HOST + b"Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n",
    "a chunk of more than it says": _ASK + _HOST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}{}\r\n0\r\n\r\n",
    "a space before the colon": _ASK + b"Host: localhost\r\nContent-Length : 0\r\n\r\n",
    "a line end without its return": b"POST /v1/ask HTTP/1.1\nHost: localhost\nContent-Length: 0\n\n",
    "a name that is no host": _ASK + b"Host: localhost:80@example.org\r\nContent-Length: 0\r\n\r\n",
    "another host": _ASK + b"Host: example.org\r\nContent-Length: 0\r\n\r\n",
    "no host": _ASK + b"Content-Length: 0\r\n\r\n",
    "a head of 1 MiB": _ASK + _HOST + b"X: " + b"x" * 2**20 + b"\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}
"""Requests that are not as they should be; behind each stands one that is."""
FAILURES: dict[str, tuple[int, str]] = {
    "401": (401, '{{"error": {{"message": "Incorrect API key provided: {key}"}}}}'),
    "400": (400, '{{"error": {{"message": "no model for {key}"}}}}'),
    "500": (500, "oops: Authorization: Bearer {key}"),
    "a page with 200": (200, "<html>{key}</html>"),
    "an answer that is cut off": (200, '{{"choices": [{{"message": {{"content": "{key}'),
}
"""Answers of an endpoint that repeat the key."""


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Try everything of this part."""
    with tempfile.TemporaryDirectory() as place, _endpoint() as (api_base, replies):
        folder = Path(place)
        documents = folder / "documents"
        documents.mkdir()
        (documents / "orle.txt").write_text("The Orle Bridge was designed by Ada Venn.")
        words = ["serve", str(documents), "--engine", "bm25", "--lm", MODEL, "--api-base", api_base]
        words += ["--lm-option", "num_retries=0", "--port", "0"]
        service = Service([sys.executable, "-m", "knowgap", *words], folder / "home", key=_KEY)
        try:
            yield _odd(service)
            yield _repeated_keys(service, replies)
        finally:
            service.process.terminate()
            service.process.wait(timeout=90)


def _odd(service: Service) -> Table:
    """Send each odd request, and another one behind it on the same connection."""
    rows: list[list[Any]] = []
    for what, sent in ODD.items():
        received = b""
        with socket.create_connection((service.host, service.port), timeout=20) as client, suppress(OSError):
            client.sendall(sent + _NEXT)
            while part := client.recv(1 << 16):
                received += part
        statuses = [line.split()[1].decode() for line in received.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
        held = len(statuses) <= 1 and all(status[0] == "4" for status in statuses)
        rows.append([what, ", ".join(statuses) or "closed", "yes" if held else "NO"])
    rows.append(["and then an ordinary one", _status(service, "GET", "/healthz")[0], ""])
    title = f"Odd requests: {sum(row[-1] == 'yes' for row in rows)} of {len(ODD)} held"
    return Table(title, ["request with", "answers", "refused, and nothing behind it answered"], rows)


def _repeated_keys(service: Service, replies: list[tuple[int, str]]) -> Table:
    """Ask while the endpoint repeats the key, and look for it in what clients get and in the log."""
    rows: list[list[Any]] = []
    for what, reply in FAILURES.items():
        replies[:] = [reply]
        before, got = len(service.log), list[str]()
        for path, more in (("/v1/ask", ""), ("/v1/ask", ', "stream": true'), ("/v1/chat/completions", "")):
            asked = '"messages": [{"role": "user", "content": "Who?"}]' if "chat" in path else '"question": "Who?"'
            got.append(_status(service, "POST", path, f"{{{asked}{more}}}".encode())[1])
        in_log = sum(_KEY in line for line in service.log[before:])
        rows.append([what, len(got), sum(_KEY in text for text in got), len(service.log) - before, in_log])
    columns = ["the endpoint's answer", "requests", "answers with the key", "lines of the log", "lines with the key"]
    return Table("An endpoint that repeats the model's key", columns, rows)


def _status(service: Service, method: str, path: str, body: bytes | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection(service.host, service.port, timeout=60)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    finally:
        connection.close()


@contextmanager
def _endpoint() -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """An endpoint of a language model; its address, and a list whose only entry is what it answers."""
    replies: list[tuple[int, str]] = [(200, "{{}}")]

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status, text = replies[0]
            content = text.format(key=self.headers["Authorization"].removeprefix("Bearer ")).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", replies
    finally:
        server.shutdown()
