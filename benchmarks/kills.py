"""Commands that take long, killed (SIGKILL) at random moments and given again until they end.

`identical` counts the commands that ended with the result of an undisturbed one, and `undisturbed` is the time that one
takes. `leftovers` are files that an undisturbed command does not leave.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import random
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fictional import stream_passages
from table import Table, note, seconds

_ASKED = "--program rag --data sample --index index --lm extractive --num-threads 2 --output-dir made --limit"
JOBS = {
    "index build": "index --corpus documents --index made --engine dense",
    "index update": "index --corpus documents --index made --engine dense",
    "eval": f"eval {_ASKED} {{limit}}",
    "compile": f"compile --optimizer bootstrap --study max_bootstrapped_demos=40 {_ASKED} {{limit}}",
    "study": f"compile --study hold_out=0 --study prune=false --n-trials 6 {_ASKED} 8",
}
"""Commands by what they do, given in a folder with `documents` and with an `index` of the sample."""


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--job-kills", type=int, help="of each kind of job (10; quick 1)")
    group.add_argument("--jobs", nargs="+", choices=JOBS, default=[*JOBS], help="kinds of jobs (all)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Kill every kind of job."""
    import torch

    for name in ("cli.main", "compiling.compiler", "lms.embedded.engine", "retrieval.dense"):
        importlib.import_module(f"knowgap.{name}")  # a fork has what is imported before it
    torch.set_num_threads(1)  # a fork has no other threads
    count, limit = options.job_kills or (1 if options.quick else 10), 12 if options.quick else 60
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as name:
        os.chdir(name)
        os.environ["KNOWGAP_HOME"] = str(Path("home").absolute())
        _command("index --data sample --index index --engine bm25")
        rows = [_kill_job(kind, JOBS[kind].format(limit=limit), count) for kind in options.jobs]
    columns = ["job", "kills", "ended", "identical", "undisturbed", "leftovers"]
    yield Table(f"{sum(row[1] for row in rows)} kills", columns, rows)


def _kill_job(kind: str, command: str, count: int) -> list[Any]:
    """Kill a kind of job so many times; when one has ended all the same, another is begun."""
    draw, kills, ended, identical, leftovers = random.Random(kind), 0, 0, 0, set[str]()
    _begin(kind)
    started = time.perf_counter()
    if not _command(command):
        raise SystemExit(f"kills: {kind}: {command} failed")
    whole, expected, files = time.perf_counter() - started, _result(kind), _files()
    note(f"kills: {kind}, {seconds(whole)} undisturbed")
    while kills < count:
        _begin(kind)
        while (good := _command(command, draw.uniform(0, 0.7) * whole if kills < count else None)) is None:
            kills += 1
        ended += good
        identical += good and _result(kind) == expected
        leftovers |= _files() - files
    return [kind, kills, ended, identical, seconds(whole), ", ".join(sorted(leftovers)) or "none"]


def _begin(kind: str) -> None:
    """Remove what a job has made, and write the documents: for an update, others are indexed before."""
    shutil.rmtree("home", ignore_errors=True)  # with the answers that are cached
    shutil.rmtree("made", ignore_errors=True)
    for name in ["before", "after"] if kind == "index update" else ["after"]:
        shutil.rmtree("documents", ignore_errors=True)
        Path("documents").mkdir()
        for number, passage in enumerate(stream_passages(300)):
            if name == "after" or number % 3:
                Path(f"documents/{number}.txt").write_text(f"{name if number % 5 == 0 else ''} {passage}", "utf-8")
        if name == "before":
            _command(JOBS[kind])


def _command(command: str, kill_after: float | None = None) -> bool | None:
    """Whether a command ends well, in a forked process; None if it still ran after `kill_after` seconds."""
    process = multiprocessing.get_context("fork").Process(target=_run, args=(command,))
    process.start()
    process.join(kill_after)
    killed = process.is_alive()
    process.kill()
    process.join()
    return None if killed else process.exitcode == 0


def _run(command: str) -> None:
    from knowgap.cli.main import main

    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    main(command.split())


def _result(kind: str) -> Any:
    """What a job has found, without times and costs."""
    from knowgap.compiling import Evaluations
    from knowgap.retrieval import open_index

    if kind.startswith("index"):
        index = open_index("made")
        return sorted(passage.id for passage in index), index.search(["a painter of rivers"], 10)
    if kind == "eval":
        [found] = Evaluations.load("made").values()
        return [(record.id, record.answer, record.scores) for record in found.records]
    if kind == "compile":
        return json.loads(Path("made/artifact/program.json").read_text(encoding="utf-8"))
    return Path("made/artifact/program.json").exists()  # what is drawn after a kill depends on the trials before it


def _files() -> set[str]:
    """Files and folders that a job has made; how often an index was changed is left out."""
    return {re.sub(r"segment-\d+", "segment", path.as_posix()) for path in Path("made").rglob("*")}
