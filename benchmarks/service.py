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
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import dspy
import numpy as np
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
    group.add_argument("--service-programs", nargs="+", default=("rag", "adaptive_note"), help="which programs (both)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Measure throughput and memory, then end the service, and the clients, under load."""
    seconds = options.service_seconds or (2.0 if options.quick else 120.0)
    clients = options.service_clients or (4 if options.quick else 64)
    rates, ends = [], []
    with tempfile.TemporaryDirectory() as folder, delayed_server(options.service_delay_ms / 1000, 4 * clients) as model:
        bench = _Bench(model, clients, Path(folder))
        for name in options.service_programs:
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
        asked = itertools.cycle(example.question for example in data.splits["train"])
        self._questions = map("{} ({})".format, asked, itertools.count())
        self._index = BM25Index.build(data.corpus, folder / "index")

    @contextmanager
    def serve(self, name: str) -> Iterator[psutil.Popen]:
        """Run `knowgap serve` in another process until the block ends."""
        words = ["--program", name, "--index", str(self._folder / "index"), "--lm", MODEL, "--port", "0"]
        words += ["--api-base", self._model.api_base, "--max-questions", str(self._clients)]
        own = {"KNOWGAP_HOME": str(self._folder / "home"), "OPENAI_API_KEY": "none"}
        pipe: Any = {"stderr": subprocess.PIPE, "text": True, "env": {**os.environ, **own}}
        service = psutil.Popen([sys.executable, "-m", "knowgap", "serve", *words], **pipe)
        said = (re.search(r" at (http://[\d.:]+);", line) for line in service.stderr)
        self._address = next(found[1] for found in said if found)
        threading.Thread(target=list, args=(service.stderr,), daemon=True).start()
        self._model.requests()  # forget the call that asked whether the model answers
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

        def direct() -> int:
            with dspy.context(lm=lm, disable_history=True):
                prediction = program(question=next(self._questions))
                _ = prediction.citations
            return prediction.trace.cost.lm_calls

        ways = ((self._ask, psutil.Process(service.pid)), (direct, psutil.Process()))
        for way in ways:
            self._turn(*way, 0.0)  # one question each, to warm up
        totals, memory = np.zeros((4, 2)), list[str]()
        for _ in range(TURNS):
            totals += np.transpose([self._turn(*way, seconds / TURNS) for way in ways])
            memory.append(f"{service.memory_info().rss / 2**20:.0f} MiB")
        answers, calls, spent, cpu = totals
        served, direct_rate = rates = answers / spent
        shown = [f"{calls[0] / answers[0]:g}", *(f"{rate:.1f}" for rate in rates), f"{served / direct_rate:.2f}"]
        return [*shown, *(f"{1000 * each:.1f} ms" for each in cpu / answers), memory[0], memory[-1]]

    def _turn(self, ask: Callable[[], int], process: psutil.Process, seconds: float) -> list[float]:
        """Ask for so many seconds, each client at least once: answers, calls, seconds, and those of the processor."""
        begun, computed = time.perf_counter(), sum(process.cpu_times()[:2])

        def client(_: int) -> list[int]:
            calls = [ask()]
            while time.perf_counter() < begun + seconds:
                calls.append(ask())
            return calls

        calls = self._clients_do(client)
        return [len(calls), sum(calls), time.perf_counter() - begun, sum(process.cpu_times()[:2]) - computed]

    def _clients_do(self, client: Callable[[int], list[int]]) -> list[int]:
        with ThreadPoolExecutor(self._clients) as pool:
            return [each for found in pool.map(client, range(self._clients)) for each in found]

    def terminate(self, service: psutil.Popen) -> list[int]:
        """Send SIGTERM under load; count calls of the model, those of the answers that came, and lost answers."""

        def client(_: int) -> list[int]:
            calls: list[int] = []
            with suppress(OSError, HTTPException):  # not accepted, or lost: the model's count tells
                while True:
                    calls.append(self._ask())
            return calls

        threading.Timer(3 + 4 * self._model.delay, service.terminate).start()
        answered = self._clients_do(client)
        service.wait(timeout=90)
        asked = self._model.requests()
        return [asked, sum(answered), -(-(asked - sum(answered)) // max(answered))]

    def disconnect(self) -> list[int]:
        """Disconnect all clients in the middle of a question; count the calls before and after."""
        usual = self._ask()
        self._model.requests()

        def client(_: int) -> list[int]:
            with suppress(TimeoutError):
                self._ask(timeout=2.5 * self._model.delay)
            return []

        self._clients_do(client)
        time.sleep(CALM + self._model.delay)
        before = self._model.requests()
        time.sleep(usual * self._model.delay)
        return [usual * self._clients, before, self._model.requests()]

    def _ask(self, timeout: float = 120.0) -> int:
        """Ask the service one question; the calls of the model that it took."""
        body = json.dumps({"question": next(self._questions)}).encode()
        request = Request(f"{self._address}/v1/ask", body, {"Content-Type": "application/json"})
        with urlopen(request, timeout=timeout) as response:
            return json.load(response)["cost"]["lm_calls"]
