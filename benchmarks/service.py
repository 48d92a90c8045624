"""A program behind `knowgap serve` beside the same program called directly.

A local server answers every call of the model after a fixed delay, and replies are cached on disk, as by the command;
no question is asked twice. Served, the program runs in a process of its own, and as many clients as the service
answers at once ask one question after another over HTTP. Called directly, it runs in as many threads of this process.
The two take turns, so that other work on the machine slows both. Every answer has its citations.
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
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import dspy
import numpy as np
import psutil
from models.delayed_server import delayed_server
from table import Table, note

from knowgap.compiling.data import load_dataset
from knowgap.lms import make_lm, quiet_dspy
from knowgap.programs import get_program
from knowgap.retrieval.indexes import BM25Index

MODEL = "openai/gpt-4o-mini"
PROGRAMS = ("rag", "adaptive_note")
TURNS = 4


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Measure throughput, processor time and memory."""
    seconds, clients = options.seconds or (2.0 if options.quick else 120.0), 4 if options.quick else 64
    rows = []
    with tempfile.TemporaryDirectory() as folder, delayed_server(options.delay_ms / 1000, 4 * clients) as address:
        bench = _Bench(address, clients, Path(folder))
        for name in options.programs or PROGRAMS:
            note(f"service: {name}")
            with bench.serve(name) as service:
                rows.append([name, *bench.alternate(name, service, seconds)])
    quiet_dspy()  # without the cache of this benchmark
    yield Table(
        f"{clients} at once, {options.delay_ms:g} ms for a reply, {seconds:g} s each",
        ["program", "calls per question", "served, questions/s", "direct, questions/s", "served / direct",
         "served, CPU per question", "direct, CPU per question", "memory, first turn", "memory, last turn"],
        rows,
        ["CPU and memory are those of the process that runs the program; direct, of this one with its threads."],
    )  # fmt: skip


class _Bench:
    """Programs over the sample, served and called directly; `folder` has the index and the caches."""

    def __init__(self, model: str, clients: int, folder: Path) -> None:
        self._model, self._clients, self._folder, self._address = model, clients, folder, ""
        data = load_dataset()
        asked = itertools.cycle(example.question for example in data.splits["train"])
        self._questions = map("{} ({})".format, asked, itertools.count())
        self._index = BM25Index.build(data.corpus, folder / "index")

    @contextmanager
    def serve(self, name: str) -> Iterator[psutil.Popen]:
        """Run `knowgap serve` in another process until the block ends."""
        words = ["--program", name, "--index", str(self._folder / "index"), "--lm", MODEL, "--port", "0"]
        words += ["--api-base", self._model, "--max-questions", str(self._clients)]
        own = {"KNOWGAP_HOME": str(self._folder / "home"), "OPENAI_API_KEY": "none"}
        pipe: Any = {"stderr": subprocess.PIPE, "text": True, "env": {**os.environ, **own}}
        service = psutil.Popen([sys.executable, "-m", "knowgap", "serve", *words], **pipe)
        said = (re.search(r" at (http://[\d.:]+);", line) for line in service.stderr)
        self._address = next(found[1] for found in said if found)
        threading.Thread(target=list, args=(service.stderr,), daemon=True).start()
        try:
            yield service
        finally:
            service.terminate()
            service.wait(timeout=90)

    def alternate(self, name: str, service: psutil.Popen, seconds: float) -> list[str]:
        """Ask the service and the program in turns; the row of the table."""
        quiet_dspy(self._folder / "replies")
        lm = make_lm(MODEL, api_base=self._model, num_retries=0)
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

        with ThreadPoolExecutor(self._clients) as pool:
            calls = [each for found in pool.map(client, range(self._clients)) for each in found]
        return [len(calls), sum(calls), time.perf_counter() - begun, sum(process.cpu_times()[:2]) - computed]

    def _ask(self) -> int:
        """Ask the service one question; the calls of the model that it took."""
        body = json.dumps({"question": next(self._questions)}).encode()
        request = Request(f"{self._address}/v1/ask", body, {"Content-Type": "application/json"})
        with urlopen(request, timeout=120) as response:
            return json.load(response)["cost"]["lm_calls"]
