"""What Ray adds: questions and passages per second with workers on this machine.

Workers are processes that answer one question at a time. 1, 2 and 4 of them ask a server that takes 200 ms for a
reply. Time is taken after the workers have started and have answered a question each; it includes what Ray, the search
and the program add to the server's replies. Passages are encoded into a ColBERT index by this process, and by 1 and 2
workers.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from models.delayed_server import delayed_server
from table import Table, note, ratio, seconds

from knowgap.compiling.data import build_index, load_dataset
from knowgap.compiling.evaluation.ray import connect
from knowgap.lms import make_lm
from knowgap.lms.metering import UsageTracker
from knowgap.programs import get_program
from knowgap.retrieval import ColBERTIndex, Passage

WORKERS = (1, 2, 4)
ENCODING_WORKERS = (0, 1, 2)


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--cluster-delay-ms", type=float, default=200.0, help="how long the server takes (200)")
    group.add_argument("--cluster-questions", type=int, help="for each worker (40; quick 5)")
    group.add_argument("--cluster-passages", type=int, help="passages to encode (8192; quick 2048)")
    group.add_argument("--cluster-program", default="rag", help="the program that answers (rag)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Measure each number of workers on a Ray of its own."""
    yield _questions(options)
    yield _encoding(options.cluster_passages or (2048 if options.quick else 8192))


def _questions(options: argparse.Namespace) -> Table:
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
    return Table(f"{options.cluster_program} on Ray, {delay * 1000:.0f} ms for a reply", columns, rows, [remark])


def _encoding(count: int) -> Table:
    """Passages a second, from when the first chunk is there."""
    sample, rows, here = load_dataset().corpus, list[list[Any]](), 0.0
    passages = [
        Passage(f"{n}", each.title, f"{each.text} ({n})") for n, each in zip(range(count), cycle(sample), strict=False)
    ]
    for workers in ENCODING_WORKERS:
        note(f"cluster: {workers} workers encode")
        times: dict[int, float] = {}
        with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as name, _ray(workers):
            ColBERTIndex.build(
                passages,
                Path(name) / "index",
                dim=128,
                ray_address="auto" if workers else None,
                progress=partial(_note_time, times),
            )
        first = sorted(times)[1]
        speed, starting = (count - first) / (times[count] - times[first]), times[first] - times[0]
        here = here or speed
        rows.append([workers or "none: this process", f"{speed:.1f}/s", ratio(speed, here), seconds(starting)])
    remark = (
        "The first chunk has 512 passages; its time has the start of the workers' encoders in it, and not that of Ray."
    )
    columns = ["workers", "speed", "of this process's", "to the first chunk"]
    return Table(f"{count:,} passages encoded, ColBERT, 128 wide", columns, rows, [remark])


def _note_time(times: dict[int, float], done: int, total: int, what: str) -> None:
    """Write down when so many passages were encoded."""
    if what == "encoding passages":
        times[done] = time.perf_counter()


@contextmanager
def _ray(workers: int) -> Iterator[None]:
    """A Ray with so many workers; none without."""
    import ray

    if workers:
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        yield
    finally:
        if workers:
            ray.shutdown()


def _ask(
    workers: int, program: str, index: Path, lm: Any, questions: list[str], count: int
) -> tuple[float, float, float]:
    """Seconds of so many questions, of starting the workers, and how many calls a question took."""
    started, tracker = time.perf_counter(), UsageTracker()
    with (
        _ray(workers),
        connect("auto", tracker, index.parent) as cluster,
        ThreadPoolExecutor(workers) as threads,
    ):
        ask = cluster(get_program(program), index, {}, lm)
        for _ in range(3):  # until each of them has surely had one
            list(threads.map(lambda question: ask(question, None), questions[:workers]))
        warm, calls = time.perf_counter(), tracker.usage.calls
        asked = (questions * (count // len(questions) + 1))[:count]
        list(threads.map(lambda question: ask(question, None), asked))
        ended = time.perf_counter()
    return ended - warm, warm - started, (tracker.usage.calls - calls) / count
