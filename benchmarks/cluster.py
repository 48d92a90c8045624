"""Questions a second on Ray: 1, 2 and 4 workers of this machine against a server that takes 200 ms for a reply.

A worker is a process that answers one question at a time. The workers are started, and have answered a question each,
before time is taken; what Ray, the search and the program add to the replies of the server is in it.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from models.delayed_server import delayed_server
from table import Table, note, ratio, seconds

from knowgap.compiling.data import build_index, load_dataset
from knowgap.compiling.evaluation.ray import connect
from knowgap.lms import make_lm
from knowgap.lms.metering import UsageTracker
from knowgap.programs import get_program

WORKERS = (1, 2, 4)


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--cluster-delay-ms", type=float, default=200.0, help="how long the server takes (200)")
    group.add_argument("--cluster-questions", type=int, help="for each worker (40; quick 5)")
    group.add_argument("--cluster-program", default="rag", help="the program that answers (rag)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Measure each number of workers on a Ray of its own."""
    count, delay = options.cluster_questions or (5 if options.quick else 40), options.cluster_delay_ms / 1000
    questions = [example.question for example in load_dataset().splits["train"]]
    rows: list[list[Any]] = []
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as name, delayed_server(delay, 64) as server:
        index = Path(name) / "index"
        build_index(load_dataset().corpus, index, engine="bm25")
        lm = make_lm("openai/gpt-4o-mini", api_base=server.api_base, cache=False, num_retries=0)
        one = 0.0
        for workers in WORKERS:
            note(f"cluster: {workers} workers")
            spent, starting, calls = _ask(workers, options.cluster_program, index, lm, questions, count * workers)
            speed = count * workers / spent
            one = one or speed
            limit = workers / (delay * calls)
            rows.append(
                [workers, count * workers, f"{speed:.2f}/s", ratio(speed, one), ratio(speed, limit), seconds(starting)]
            )
    columns = ["workers", "questions", "speed", "of one worker's", "of the server's limit", "start"]
    remark = "The limit: as many questions at once as there are workers, each as long as its calls one after the other."
    yield Table(f"{options.cluster_program} on Ray, {delay * 1000:.0f} ms for a reply", columns, rows, [remark])


def _ask(
    workers: int, program: str, index: Path, lm: Any, questions: list[str], count: int
) -> tuple[float, float, float]:
    """Seconds of so many questions, of starting the workers, and how many calls a question took."""
    import ray

    started, tracker = time.perf_counter(), UsageTracker()
    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        with connect("auto", tracker, index.parent) as cluster, ThreadPoolExecutor(workers) as threads:
            ask = cluster(get_program(program), index, {}, lm)
            for _ in range(3):  # until each of them has surely had one
                list(threads.map(lambda question: ask(question, None), questions[:workers]))
            warm, calls = time.perf_counter(), tracker.usage.calls
            asked = (questions * (count // len(questions) + 1))[:count]
            list(threads.map(lambda question: ask(question, None), asked))
            ended = time.perf_counter()
    finally:
        ray.shutdown()
    return ended - warm, warm - started, (tracker.usage.calls - calls) / count
