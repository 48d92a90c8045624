"""What clients of the service cost: thousands of new connections, and answers that are not read at its end.

Each question comes over a connection of its own while the service may open 1,024 files; throughput, open files and log
must not change from one tenth of the questions to the next. Clients that ask and do not read the answer must not keep
the service from ending within its grace period.
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
from collections.abc import Iterator, Sequence
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
_HANGS = 20.0
"""Seconds that the model takes which does not reply in the grace."""


def _whole(path: str, asked: dict[str, Any]) -> bytes:
    body = json.dumps(asked).encode()
    return _HEAD.replace(b"/v1/ask", path.encode()) + b"Content-Length: %d\r\n\r\n" % len(body) + body


_MUCH = _whole("/search", {"queries": ["harbour", "river", "tower", "painter"] * 50, "k": 500})


def add_arguments(group: Any) -> None:
    """Add the options of this part."""
    group.add_argument("--clients-questions", type=int, help="questions over new connections (5000; quick 400)")
    group.add_argument("--clients-delay-ms", type=float, default=20.0, help="how long the model takes (20)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Try everything of this part."""
    data = load_dataset()
    sample = [example.question for split in data.splits.values() for example in split]
    questions = (f"{sample[n % len(sample)]} ({n})" for n in itertools.count())
    delay = options.clients_delay_ms / 1000
    with tempfile.TemporaryDirectory() as folder, delayed_server(delay, 4 * _CLIENTS) as model:
        index = BM25Index.build(data.corpus, Path(folder) / "index")
        bench = Bench("rag", index, model, questions, _CLIENTS, Path(folder))
        yield _new_connections(bench, options.clients_questions or (400 if options.quick else 5_000))
        rows = [_ended(bench, "nothing", []), _ended(bench, "20 that take no answer", [_stream(), _MUCH] * 10)]
        with delayed_server(_HANGS, 4) as hanging:
            bench = Bench("rag", index, hanging, questions, 4, Path(folder))
            rows.append(_ended(bench, f"a question whose model takes {_HANGS:g} s", [_stream(False)]))
        yield Table("SIGTERM", ["beside", "grace, s", "ended after, s", "exit code"], rows)


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
                    files = max(files, service.usage.num_fds())
                    threads = max(threads, service.usage.num_threads())
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


def _connected(service: Service) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    client.settimeout(1.0)
    client.connect((service.host, service.port))
    return client


def _ended(bench: Bench, beside: str, requests: Sequence[bytes]) -> list[Any]:
    """SIGTERM beside clients that have sent these requests and take no answer; a row of the table."""
    with bench.serve("--grace", str(_GRACE)) as service, ExitStack() as opened:
        for sent in requests:
            opened.enter_context(client := _connected(service))
            client.sendall(sent)
        time.sleep(1.0)
        begun = time.monotonic()
        service.process.terminate()
        code = service.process.wait(timeout=90)
        return [beside, _GRACE, f"{time.monotonic() - begun:.1f}", code]


def _stream(stream: bool = True) -> bytes:
    return _whole("/v1/ask", {"question": "Who?", "stream": stream})
