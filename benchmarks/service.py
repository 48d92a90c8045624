"""A program behind `knowgap serve` beside the same program called directly, and questions that are cut short.

A local server answers every call of the model after a fixed delay, and replies are cached on disk, as by the command;
no question is asked twice. Served, the program runs in a process of its own, and as many clients as the service
answers at once ask one question after another over HTTP. Called directly, it runs in as many threads of this process.
The two take turns, so that other work on the machine slows both. Each is measured with the citations of every answer,
and without.

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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dspy
import psutil
from models.delayed_server import Server, delayed_server
from table import Table, memory_of, note, ratio

from knowgap.compiling.data import load_dataset
from knowgap.lms import make_lm, quiet_dspy
from knowgap.programs import get_program
from knowgap.retrieval.bm25 import BM25Index

MODEL = "openai/gpt-4o-mini"
TURNS = 4
CALM = 1.0
"""Seconds after which the service must have noticed that a client has disconnected."""


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--service-seconds", type=float, help="how long each row takes, either way (120; quick 2)")
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
    ends, cancelled = [], []
    with tempfile.TemporaryDirectory() as folder, delayed_server(options.service_delay_ms / 1000, 4 * clients) as model:
        index = BM25Index.build(data.corpus, Path(folder) / "index")
        for name in options.service_programs.split(","):
            note(f"service: {name}")
            bench = _Bench(name, index, model, questions, clients, Path(folder))
            with bench.serve() as service:
                memory: list[list[Any]] = []
                rows = [bench.alternate(service, seconds, citations, memory) for citations in (False, True)]
                cancelled.append([name, *bench.disconnect(service)])
            ends.append([name, *bench.terminate()])
            yield Table(
                f"{name}: {clients} at once, {options.service_delay_ms:g} ms for a reply, {seconds:g} s each",
                ["citations", "calls per question", "served, questions/s", "direct, questions/s", "served / direct",
                 "served, CPU per question", "direct, CPU per question"],
                rows,
                ["CPU is that of the process that runs the program: of the service, or of this one with its threads."],
            )  # fmt: skip
            columns = ["citations", "after seconds of load", "questions answered", "memory", "threads"]
            yield Table(f"{name}: memory of the service", columns, memory)
    quiet_dspy()  # without the cache of this benchmark
    yield Table(
        "SIGTERM under load", ["program", "calls of the model", "calls of answers that came", "answers lost"], ends
    )
    yield Table(
        "Clients that disconnect",
        ["program", "disconnected", "calls that their answers take", "calls until then", f"calls {CALM:g} s later"],
        cancelled,
    )


class _Service:
    """`knowgap serve` in another process."""

    def __init__(self, command: Sequence[str], home: Path, key: str = "none") -> None:
        environment = {**os.environ, "KNOWGAP_HOME": str(home), "OPENAI_API_KEY": key}
        self.log = list[str]()
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        assert self.process.stderr is not None
        self.usage = psutil.Process(self.process.pid)
        said = ""
        for line in self.process.stderr:
            said += line
            if address := re.search(r" at http://([\d.]+):(\d+)", line):
                self.host, self.port = address[1], int(address[2])
                threading.Thread(target=self._keep_log, daemon=True).start()
                return
        raise SystemExit(f"the service does not start: {said}")

    logged = 0
    """Characters that the service wrote to its log since it began to serve, whose lines are `log`."""

    def _keep_log(self) -> None:
        for line in self.process.stderr or ():
            self.logged += len(line)
            self.log.append(line)

    def connect(self) -> http.client.HTTPConnection:
        """Make a connection for one client."""
        return http.client.HTTPConnection(self.host, self.port, timeout=120)

    def cpu(self) -> float:
        """Seconds that the process has computed."""
        times = self.usage.cpu_times()
        return times.user + times.system


class _Bench:
    """One program, served and called directly."""

    def __init__(
        self, name: str, index: BM25Index, model: Server, questions: Iterator[str], clients: int, folder: Path
    ) -> None:
        self._name, self._model, self._clients, self._folder = name, model, clients, folder
        self._questions, self._taking = questions, threading.Lock()
        self._lm = make_lm(MODEL, api_base=model.api_base, num_retries=0)
        self._program = get_program(name)(index)
        self._index_folder = folder / "index"

    @contextmanager
    def serve(self, *more: str, files: int | None = None) -> Iterator[_Service]:
        """Run the service, with more arguments, until the block ends; it may open so many files (None: as this one)."""
        words = ["serve", "--program", self._name, "--index", str(self._index_folder), "--lm", MODEL, "--port", "0"]
        words += ["--api-base", self._model.api_base, "--max-questions", str(self._clients), *more]
        limited = [] if files is None else ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh"]
        service = _Service([*limited, sys.executable, "-m", "knowgap", *words], self._folder / "home")
        try:
            self._model.counts()  # forget the call that asked whether the model answers
            yield service
        finally:
            service.process.terminate()
            service.process.wait(timeout=90)

    def alternate(self, service: _Service, seconds: float, citations: bool, memory: list[list[Any]]) -> list[str]:
        """Ask the service and the program in turns; sample the service's memory. Returns the row of the throughput."""
        quiet_dspy(self._folder / "replies")
        shown = "yes" if citations else "no"
        served, direct = _Load(self._served(service, citations)), _Load(self._direct(citations))

        def sample() -> None:
            held, threads = memory_of(service.usage), service.usage.num_threads()
            memory.append([shown, f"{served.seconds_so_far():.0f}", served.answered, held, threads])

        for load in (served, direct):
            load.run(self._clients, 0.0)  # one question each, to warm up
        self._model.counts()
        served, direct = _Load(served.ask), _Load(direct.ask)
        calls = 0
        for turn in range(TURNS):
            begun = service.cpu()
            served.run(self._clients, seconds / TURNS, sample if turn == 0 else None)
            served.cpu += service.cpu() - begun
            sample()
            calls += int(self._model.counts()["requests"])
            begun = time.process_time()
            direct.run(self._clients, seconds / TURNS)
            direct.cpu += time.process_time() - begun
            self._model.counts()
        rates = [load.answered / load.seconds for load in (served, direct)]
        costs = [f"{1000 * load.cpu / load.answered:.1f} ms" for load in (served, direct)]
        per_question = f"{calls / served.answered:g}"
        return [shown, per_question, *(f"{rate:.1f}" for rate in rates), ratio(*rates), *costs]

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
                costs.append(self._ask(connection)["cost"]["lm_calls"])
            except OSError:  # not accepted, or lost: the model's count tells
                return costs
            finally:
                connection.close()

    def disconnect(self, service: _Service) -> list[int]:
        """Disconnect all clients in the middle of a question; count calls before and after."""
        usual = self._ask(service.connect())["cost"]["lm_calls"]
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
        return [self._clients, usual * self._clients, before, int(self._model.counts()["requests"])]

    def _question(self) -> str:
        with self._taking:
            return next(self._questions)

    def _send(self, connection: http.client.HTTPConnection, citations: bool = False) -> None:
        body = json.dumps({"question": self._question(), "citations": citations})
        connection.request("POST", "/v1/ask", body, {"Content-Type": "application/json"})

    def _ask(self, connection: http.client.HTTPConnection, citations: bool = False) -> dict[str, Any]:
        self._send(connection, citations)
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise SystemExit(f"the service answers {response.status}: {body.decode()}")
        return json.loads(body)

    def _served(self, service: _Service, citations: bool) -> Callable[[], object]:
        local = threading.local()

        def ask() -> None:
            if not hasattr(local, "connection"):
                local.connection = service.connect()
            self._ask(local.connection, citations)

        return ask

    def _direct(self, citations: bool) -> Callable[[], object]:
        def ask() -> None:
            with dspy.context(lm=self._lm, disable_history=True):
                prediction = self._program(question=self._question())
                if citations:
                    _ = prediction.citations

        return ask


class _Load:
    """Threads that ask one question after another; counts the answers."""

    def __init__(self, ask: Callable[[], object]) -> None:
        self.ask, self._counting = ask, threading.Lock()
        self.answered, self.seconds, self.cpu, self._begun = 0, 0.0, 0.0, 0.0

    def seconds_so_far(self) -> float:
        """Seconds of load, those of the present run included."""
        return self.seconds + (time.perf_counter() - self._begun if self._begun else 0.0)

    def run(self, clients: int, seconds: float, early: Callable[[], None] | None = None) -> None:
        """Ask for so many seconds, each client at least once, and wait for the last answers.

        Args:
            clients: how many ask at once.
            seconds: no question begins after that.
            early: called after 10 seconds, or after half of the time if that is less.
        """
        self._begun = time.perf_counter()
        timer = threading.Timer(min(10.0, seconds / 2), early or (lambda: None))
        timer.start()
        with ThreadPoolExecutor(clients) as pool:
            for future in [pool.submit(self._client, self._begun + seconds) for _ in range(clients)]:
                future.result()
        timer.join()
        self.seconds, self._begun = self.seconds_so_far(), 0.0

    def _client(self, end: float) -> None:
        while True:
            self.ask()
            with self._counting:
                self.answered += 1
            if time.perf_counter() >= end:
                return
