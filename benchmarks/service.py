"""A program behind `knowgap serve` beside the same program called directly, and questions that are cut short.

A local server answers every call of the model after a fixed delay, and replies are cached on disk, as by the command;
no question is asked twice. Served, the program runs in a process of its own, and as many clients as the service
answers at once ask one question after another over HTTP. Called directly, it runs in as many threads of this process.
The two take turns, so that other work on the machine slows both. Every answer has its citations.

Then all clients disconnect while the model is being asked: a second later, no call may begin any more. Finally, the
service gets SIGTERM under load: an answer is lost if the model was asked and no client got a reply.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import dspy
import psutil
from models.delayed_server import Server, delayed_server
from table import Table, note

from knowgap.compiling.data import load_dataset
from knowgap.lms import make_lm, quiet_dspy
from knowgap.programs import get_program
from knowgap.retrieval.indexes import BM25Index

MODEL = "openai/gpt-4o-mini"
TURNS = 4
CALM = 1.0
"""Seconds after which the service must have noticed that a client has disconnected."""


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--service-seconds", type=float, help="how long each is asked (120; quick 2)")
    group.add_argument("--service-clients", type=int, help="clients at once (64; quick 4)")
    group.add_argument("--service-delay-ms", type=float, default=200.0, help="how long the model takes (200)")
    group.add_argument("--service-programs", default="rag,adaptive_note", help="which programs (rag,adaptive_note)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Measure throughput and memory, then end the service, and the clients, under load."""
    seconds = options.service_seconds or (2.0 if options.quick else 120.0)
    clients = options.service_clients or (4 if options.quick else 64)
    rates, ends = [], []
    with tempfile.TemporaryDirectory() as folder, delayed_server(options.service_delay_ms / 1000, 4 * clients) as model:
        bench = _Bench(model, clients, Path(folder))
        for name in options.service_programs.split(","):
            note(f"service: {name}")
            with bench.serve(name) as service:
                rates.append([name, *bench.alternate(name, service, seconds)])
                disconnected = bench.disconnect()
            with bench.serve(name) as service:
                ends.append([name, *bench.terminate(service), *disconnected])
    quiet_dspy()  # without the cache of this benchmark
    yield Table(
        f"{clients} at once, {options.service_delay_ms:g} ms for a reply, {seconds:g} s each",
        ["program", "calls per question", "served, questions/s", "direct, questions/s", "served / direct",
         "served, CPU per question", "direct, CPU per question", "memory, first turn", "memory, last turn"],
        rates,
        ["CPU and memory are those of the process that runs the program; direct, of this one with its threads."],
    )  # fmt: skip
    yield Table(
        "SIGTERM under load, and clients that disconnect",
        ["program", "calls of the model", "calls of answers that came", "answers lost",
         "calls that the answers of those who left take", "calls until then", f"calls {CALM:g} s later"],
        ends,
    )  # fmt: skip


class _Bench:
    """Programs over the sample, served and called directly; `folder` has the index and the caches."""

    def __init__(self, model: Server, clients: int, folder: Path) -> None:
        self._model, self._clients, self._folder, self._address = model, clients, folder, ""
        data = load_dataset()
        asked = [example.question for split in data.splits.values() for example in split]
        self._questions = map("{} ({})".format, itertools.cycle(asked), itertools.count())
        self._index = BM25Index.build(data.corpus, folder / "index")

    @contextmanager
    def serve(self, name: str) -> Iterator[psutil.Popen]:
        """Run `knowgap serve` in another process until the block ends."""
        words = ["--program", name, "--index", str(self._folder / "index"), "--lm", MODEL, "--port", "0"]
        words += ["--api-base", self._model.api_base, "--max-questions", str(self._clients)]
        own = {"KNOWGAP_HOME": str(self._folder / "home"), "OPENAI_API_KEY": "none"}
        pipe: Any = {"stderr": subprocess.PIPE, "text": True, "env": {**os.environ, **own}}
        service = psutil.Popen([sys.executable, "-m", "knowgap", "serve", *words], **pipe)
        said = (re.search(r" at http://([\d.:]+);", line) for line in service.stderr)
        self._address = next(found[1] for found in said if found)
        threading.Thread(target=list, args=(service.stderr,), daemon=True).start()
        self._model.counts()  # forget the call that asked whether the model answers
        try:
            yield service
        finally:
            if service.poll() is None:
                service.terminate()
            service.wait(timeout=90)

    def alternate(self, name: str, service: psutil.Popen, seconds: float) -> list[str]:
        """Ask the service and the program in turns; the row of the table."""
        quiet_dspy(self._folder / "replies")
        lm = make_lm(MODEL, api_base=self._model.api_base, num_retries=0)
        program = get_program(name)(self._index)

        def direct() -> None:
            with dspy.context(lm=lm, disable_history=True):
                _ = program(question=next(self._questions)).citations

        ways = ((self._ask, psutil.Process(service.pid)), (direct, psutil.Process()))
        for ask, _ in ways:
            self._load(ask, 0.0)  # one question each, to warm up
        self._model.counts()
        answers, spent, cpu, calls, memory = [0, 0], [0.0, 0.0], [0.0, 0.0], 0.0, list[str]()
        for _ in range(TURNS):
            for n, (ask, process) in enumerate(ways):
                begun, computed = time.perf_counter(), sum(process.cpu_times()[:2])
                answers[n] += self._load(ask, seconds / TURNS)
                spent[n] += time.perf_counter() - begun
                cpu[n] += sum(process.cpu_times()[:2]) - computed
                calls += self._model.counts()["requests"] * (n == 0)
            memory.append(f"{service.memory_info().rss / 2**20:.0f} MiB")
        rates = [count / time for count, time in zip(answers, spent, strict=True)]
        costs = [f"{1000 * used / count:.1f} ms" for used, count in zip(cpu, answers, strict=True)]
        shown = [f"{calls / answers[0]:g}", *(f"{rate:.1f}" for rate in rates), f"{rates[0] / rates[1]:.2f}"]
        return [*shown, *costs, memory[0], memory[-1]]

    def terminate(self, service: psutil.Popen) -> list[int]:
        """Send SIGTERM under load; count calls of the model, those of the answers that came, and lost answers."""

        def ask(_: int) -> list[int]:
            costs: list[int] = []
            while True:
                try:
                    costs.append(self._ask())
                except (OSError, http.client.HTTPException):  # not accepted, or lost: the model's count tells
                    return costs

        threading.Timer(3 + 4 * self._model.delay, service.terminate).start()
        with ThreadPoolExecutor(self._clients) as pool:
            answered = [cost for costs in pool.map(ask, range(self._clients)) for cost in costs]
        service.wait(timeout=90)
        asked = int(self._model.counts()["requests"])
        return [asked, sum(answered), -(-(asked - sum(answered)) // max(answered))]

    def disconnect(self) -> list[int]:
        """Disconnect all clients in the middle of a question; count the calls before and after."""
        usual = self._ask()
        self._model.counts()
        connections = [self._sent() for _ in range(self._clients)]
        time.sleep(2.5 * self._model.delay)
        for connection in connections:
            connection.close()
        time.sleep(CALM + self._model.delay)
        before = int(self._model.counts()["requests"])
        time.sleep(usual * self._model.delay)
        return [usual * self._clients, before, int(self._model.counts()["requests"])]

    def _load(self, ask: Callable[[], object], seconds: float) -> int:
        """Ask for so many seconds, each client at least once; how many answers came."""
        end = time.perf_counter() + seconds

        def client(_: int) -> int:
            ask()
            count = 1
            while time.perf_counter() < end:
                ask()
                count += 1
            return count

        with ThreadPoolExecutor(self._clients) as pool:
            return sum(pool.map(client, range(self._clients)))

    def _sent(self) -> http.client.HTTPConnection:
        """A connection over which a question was sent."""
        connection, body = http.client.HTTPConnection(self._address, timeout=120), {"question": next(self._questions)}
        connection.request("POST", "/v1/ask", json.dumps(body), {"Content-Type": "application/json"})
        return connection

    def _ask(self) -> int:
        """Ask the service one question; the calls of the model that it took."""
        with closing(self._sent()) as connection:
            response = connection.getresponse()
            body = response.read()
        if response.status != 200:
            raise SystemExit(f"the service answers {response.status}: {body.decode()}")
        return json.loads(body)["cost"]["lm_calls"]
