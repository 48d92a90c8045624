"""What clients of the service can do to others: new connections, requests that do not end, answers that are not read.

Each question comes over a connection of its own while the service may open 1,024 files; throughput, open files and log
must not change from one tenth to the next. Hundreds of clients send part of a request and then nothing, or a byte a
second, while others ask. And clients that ask and read nothing must not keep the service from ending in its grace.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from models.delayed_server import delayed_server
from service import _Bench as Bench
from service import _Service as Service
from table import Table, note

from knowgap.compiling.data import load_dataset
from knowgap.retrieval.bm25 import BM25Index

_CLIENTS, _FILES, _GRACE = 32, 1024, 3
_HEAD = b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
WITHHELD: dict[str, bytes] = {
    "nothing": b"",
    "half a head": _HEAD,
    "a head without its body": _HEAD + b"Content-Length: 40\r\n\r\n",
    "a body without its end": _HEAD + b'Content-Length: 40\r\n\r\n{"question": "Who',
    "a chunk without the next": _HEAD + b'Transfer-Encoding: chunked\r\n\r\n4\r\n{"qu\r\n',
    "a request, then half of one": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /hea",
}
"""What a client sends before it withholds the rest."""


def add_arguments(group: Any) -> None:
    """Add the options of this part."""
    group.add_argument("--clients-questions", type=int, help="questions over new connections (20000; quick 400)")
    group.add_argument("--clients-delay-ms", type=float, default=20.0, help="how long the model takes (20)")
    group.add_argument("--clients-withholding", type=int, default=400, help="clients that withhold something (400)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Try everything of this part.

    Args:
        options: those of the command line.
    """
    data = load_dataset()
    sample = [example.question for split in data.splits.values() for example in split]
    questions = (f"{sample[n % len(sample)]} ({n})" for n in itertools.count())
    delay = options.clients_delay_ms / 1000
    with tempfile.TemporaryDirectory() as folder, delayed_server(delay, 4 * _CLIENTS) as model:
        index = BM25Index.build(data.corpus, Path(folder) / "index")
        bench = Bench("rag", index, model, questions, _CLIENTS, Path(folder))
        yield _new_connections(bench, options.clients_questions or (400 if options.quick else 20_000))
        yield _withheld(bench, options.clients_withholding, 2.0 if options.quick else 15.0)
        yield _stalled(bench)


def _new_connections(bench: Bench, wanted: int) -> Table:
    """Questions over new connections, with the figures of each tenth."""
    rows: list[list[Any]] = []
    answered_at: list[float] = []
    with bench.serve(files=_FILES) as service:
        for tenth in range(10):
            outcomes, lock, left = Counter[str](), threading.Lock(), itertools.count()
            files, threads, begun, logged = 0, 0, time.perf_counter(), service.logged

            def client(left: Iterator[int] = left, outcomes: Counter[str] = outcomes, lock: Any = lock) -> None:
                while next(left) < wanted // 10:
                    outcome = _asked(bench, service)
                    with lock:
                        outcomes[outcome] += 1
                        answered_at.append(time.perf_counter())

            with ThreadPoolExecutor(_CLIENTS) as pool:
                running = [pool.submit(client) for _ in range(_CLIENTS)]
                while not all(future.done() for future in running):
                    files = max(files, len(list(Path(f"/proc/{service.process.pid}/fd").iterdir())))
                    threads = max(threads, int(service.status("Threads")))
                    time.sleep(0.2)
            rate = outcomes["answered"] / (time.perf_counter() - begun)
            failed = outcomes.total() - outcomes["answered"]
            logged = service.logged - logged
            rows.append([tenth + 1, outcomes["answered"], failed, f"{rate:.1f}", files, threads, logged])
            note(f"new connections: {rows[-1]}")
    part = min(1000, wanted // 10)
    first, last = (part / (answered_at[end - 1] - answered_at[end - part]) for end in (part, len(answered_at)))
    remark = f"The last {part} questions: {last / first:.2f} times as many a second as the first {part}."
    columns = ["tenth", "answered", "failed", "questions/s", "open files at most", "threads at most", "log, characters"]
    title = f"{wanted} questions, each over a new connection, under ulimit -n {_FILES}"
    return Table(title, columns, rows, [remark])


def _asked(bench: Bench, service: Service) -> str:
    connection = service.connect()
    try:
        bench._ask(connection)  # pyright: ignore[reportPrivateUsage]
    except (OSError, http.client.HTTPException, SystemExit) as error:
        return type(error).__name__
    finally:
        connection.close()
    return "answered"


def _withheld(bench: Bench, clients: int, seconds: float) -> Table:
    """Requests of others while clients withhold the rest of theirs and come again when they are cut off."""
    rows: list[list[Any]] = []
    for what, sent in WITHHELD.items():
        note(f"withheld: {what}")
        with bench.serve(files=_FILES) as service, ExitStack() as opened:
            stop = threading.Event()
            pool = opened.enter_context(ThreadPoolExecutor(clients))
            opened.callback(stop.set)
            for _ in range(clients):
                pool.submit(_withhold, service, sent, stop)
            time.sleep(1.0)
            outcomes, end = Counter[tuple[str, bool]](), time.monotonic() + seconds
            while time.monotonic() < end:
                for path in ("/healthz", "/search?query=harbour", "/v1/ask"):
                    outcomes[path.partition("?")[0], _answered(bench, service, path)] += 1
        paths = sorted({path for path, _ in outcomes})
        rows.append(
            [what, clients, *(f"{outcomes[p, True]} of {outcomes[p, True] + outcomes[p, False]}" for p in paths)]
        )
    return Table("Requests that were answered while clients withheld theirs", ["withheld", "clients", *paths], rows)


def _withhold(service: Service, sent: bytes, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            with socket.create_connection((service.host, service.port), timeout=1.0) as client:
                client.sendall(sent)
                while not stop.is_set():
                    try:
                        if not client.recv(1 << 12):
                            break
                    except TimeoutError:
                        continue
        except OSError:
            stop.wait(0.1)


def _answered(bench: Bench, service: Service, path: str) -> bool:
    if path == "/v1/ask":
        return _asked(bench, service) == "answered"
    connection = http.client.HTTPConnection(service.host, service.port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _stalled(bench: Bench) -> Table:
    """SIGTERM beside clients that ask for a stream, or for much at once, and read nothing."""
    rows: list[list[Any]] = []
    for readers in (0, 20):
        note(f"stalled readers: {readers}")
        with bench.serve("--grace", str(_GRACE)) as service, ExitStack() as opened:
            for number in range(readers):
                opened.enter_context(_stalled_reader(service, stream=number % 2 == 0))
            time.sleep(1.0)
            begun = time.monotonic()
            service.process.terminate()
            code = service.process.wait(timeout=90)
            rows.append([readers, _GRACE, f"{time.monotonic() - begun:.1f}", code])
    return Table("SIGTERM", ["readers that are stalled", "grace, s", "ended after, s", "exit code"], rows)


def _stalled_reader(service: Service, stream: bool) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    client.connect((service.host, service.port))
    path, asked = ("/v1/ask", {"question": "Who?", "stream": True}) if stream else ("/search", _many_queries())
    body = json.dumps(asked).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    client.sendall(f"{head}\r\n\r\n".encode() + body)
    return client


def _many_queries() -> dict[str, Any]:
    return {"queries": ["harbour", "river", "tower", "painter"] * 50, "k": 500}
