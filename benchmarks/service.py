"""A program behind `knowgap serve` beside the same program called directly, and questions that are cut short.

A local server answers every call of the model after a fixed delay, and replies are cached on disk, as by the command;
no question is asked twice. Served, the program runs in a process of its own, and as many clients as the service
answers at once ask one question after another over HTTP. Called directly, it runs in as many threads of this process.
The two take turns, so that other work on the machine slows both. Every answer has its citations.

Then the service gets SIGTERM under the same load: an answer is lost if the model was asked and no client got a reply.
Finally, all clients disconnect while the model is being asked: a second later, no call may begin any more.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
    data = load_dataset()
    sample = [example.question for split in data.splits.values() for example in split]
    questions = (f"{sample[n % len(sample)]} ({n})" for n in itertools.count())
    rates, ends = [], []
    with tempfile.TemporaryDirectory() as folder, delayed_server(options.service_delay_ms / 1000, 4 * clients) as model:
        index = BM25Index.build(data.corpus, Path(folder) / "index")
        for name in options.service_programs.split(","):
            note(f"service: {name}")
            bench = _Bench(name, index, model, questions, clients, Path(folder))
            with bench.serve() as service:
                rates.append([name, *bench.alternate(service, seconds)])
                disconnected = bench.disconnect(service)
            ends.append([name, *bench.terminate(), *disconnected])
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


class _Service:
    """`knowgap serve` in another process."""

    def __init__(self, words: list[str], home: Path) -> None:
        environment = {**os.environ, "KNOWGAP_HOME": str(home), "OPENAI_API_KEY": "none"}
        command = [sys.executable, "-m", "knowgap", "serve", *words, "--port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        assert self.process.stderr is not None
        address = (re.search(r" at http://([\d.:]+);", line) for line in self.process.stderr)
        self.address = next(found[1] for found in address if found)
        threading.Thread(target=list, args=(self.process.stderr,), daemon=True).start()
        self.usage = psutil.Process(self.process.pid)

    def connect(self) -> http.client.HTTPConnection:
        """Make a connection for one client."""
        return http.client.HTTPConnection(self.address, timeout=120)

    def cpu(self) -> float:
        """Seconds that the process has computed."""
        return sum(self.usage.cpu_times()[:2])


class _Bench:
    """One program, served and called directly."""

    def __init__(
        self, name: str, index: BM25Index, model: Server, questions: Iterator[str], clients: int, folder: Path
    ) -> None:
        self._name, self._model, self._clients, self._folder = name, model, clients, folder
        self._questions, self._lock = questions, threading.Lock()
        self._lm = make_lm(MODEL, api_base=model.api_base, num_retries=0)
        self._program = get_program(name)(index)

    @contextmanager
    def serve(self) -> Iterator[_Service]:
        """Run the service until the block ends."""
        words = ["--program", self._name, "--index", str(self._folder / "index"), "--lm", MODEL]
        words += ["--api-base", self._model.api_base, "--max-questions", str(self._clients)]
        service = _Service(words, self._folder / "home")
        try:
            self._model.counts()  # forget the call that asked whether the model answers
            yield service
        finally:
            service.process.terminate()
            service.process.wait(timeout=90)

    def alternate(self, service: _Service, seconds: float) -> list[str]:
        """Ask the service and the program in turns; the row of the table."""
        quiet_dspy(self._folder / "replies")
        served, direct = self._served(service), self._direct
        for ask in (served, direct):
            self._load(ask, 0.0)  # one question each, to warm up
        self._model.counts()
        answers, spent, cpu, calls, memory = [0, 0], [0.0, 0.0], [0.0, 0.0], 0, list[str]()
        for _ in range(TURNS):
            for n, (ask, clock) in enumerate(((served, service.cpu), (direct, time.process_time))):
                begun, computed = time.perf_counter(), clock()
                answers[n] += self._load(ask, seconds / TURNS)
                spent[n], cpu[n] = spent[n] + time.perf_counter() - begun, cpu[n] + clock() - computed
                calls += 0 if n else int(self._model.counts()["requests"])
            self._model.counts()
            memory.append(f"{service.usage.memory_info().rss / 2**20:.0f} MiB")
        rates = [count / time for count, time in zip(answers, spent, strict=True)]
        costs = [f"{1000 * used / count:.1f} ms" for used, count in zip(cpu, answers, strict=True)]
        shown = [f"{calls / answers[0]:g}", *(f"{rate:.1f}" for rate in rates), f"{rates[0] / rates[1]:.2f}"]
        return [*shown, *costs, memory[0], memory[-1]]

    def terminate(self) -> list[int]:
        """Send SIGTERM under load; count calls of the model, those of the answers that came, and lost answers."""
        with self.serve() as service:
            with ThreadPoolExecutor(self._clients) as pool:
                running = [pool.submit(self._ask_until_refused, service) for _ in range(self._clients)]
                time.sleep(3 + 4 * self._model.delay)
                service.process.send_signal(signal.SIGTERM)
                answered = [cost for future in running for cost in future.result()]
            service.process.wait(timeout=90)
        asked = int(self._model.counts()["requests"])
        return [asked, sum(answered), -(-(asked - sum(answered)) // max(answered))]

    def _ask_until_refused(self, service: _Service) -> list[int]:
        """Ask over a new connection each time, until the service takes none; the calls of each answer."""
        costs: list[int] = []
        while True:
            connection = service.connect()
            try:
                costs.append(self._ask(connection))
            except OSError:  # not accepted, or lost: the model's count tells
                return costs
            finally:
                connection.close()

    def disconnect(self, service: _Service) -> list[int]:
        """Disconnect all clients in the middle of a question; count the calls before and after."""
        usual = self._ask(service.connect())
        self._model.counts()
        connections = [service.connect() for _ in range(self._clients)]
        for connection in connections:
            self._send(connection)
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
            for count in itertools.count(1):
                ask()
                if time.perf_counter() >= end:
                    return count
            return 0

        with ThreadPoolExecutor(self._clients) as pool:
            return sum(pool.map(client, range(self._clients)))

    def _question(self) -> str:
        with self._lock:
            return next(self._questions)

    def _send(self, connection: http.client.HTTPConnection) -> None:
        body = json.dumps({"question": self._question()})
        connection.request("POST", "/v1/ask", body, {"Content-Type": "application/json"})

    def _ask(self, connection: http.client.HTTPConnection) -> int:
        """Ask one question; the calls of the model that it took."""
        self._send(connection)
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise SystemExit(f"the service answers {response.status}: {body.decode()}")
        return json.loads(body)["cost"]["lm_calls"]

    def _served(self, service: _Service) -> Callable[[], object]:
        local = threading.local()

        def ask() -> None:
            if not hasattr(local, "connection"):
                local.connection = service.connect()
            self._ask(local.connection)

        return ask

    def _direct(self) -> None:
        with dspy.context(lm=self._lm, disable_history=True):
            _ = self._program(question=self._question()).citations
