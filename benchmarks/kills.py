"""Commands that take long, killed (SIGKILL) at random moments and given again until they end.

`identical` counts the commands that ended with the result of an undisturbed one, and `undisturbed` is the time that one
takes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fictional.articles import write_articles
from fictional.world import World
from table import Table, note, seconds

_ASKED = "--program rag --data sample --index index --lm extractive --num-threads 2 --output-dir made --limit"
JOBS = {
    "index": "index --corpus corpus.jsonl --index made --engine dense",
    "eval": f"eval {_ASKED} {{limit}}",
    "compile": f"compile --optimizer bootstrap --study max_bootstrapped_demos=40 {_ASKED} {{limit}}",
    "study": f"compile --study hold_out=0 --study prune=false --n-trials 6 {_ASKED} 8",
}
"""Commands by what they do, given in a folder with a corpus and with an `index` of the sample."""


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Kill every kind of job."""
    count, limit = options.count or (1 if options.quick else 10), 12 if options.quick else 60
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as name:
        os.chdir(name)
        os.environ["KNOWGAP_HOME"] = str(Path("home").absolute())
        _command("index --data sample --index index --engine bm25")
        passages = [json.dumps(passage.to_dict()) for passage in write_articles(World(0))]
        Path("corpus.jsonl").write_text("\n".join(passages), encoding="utf-8")
        rows = [_kill_job(kind, JOBS[kind].format(limit=limit), count) for kind in options.parts or JOBS]
    columns = ["job", "kills", "ended", "identical", "undisturbed"]
    yield Table(f"{sum(row[1] for row in rows)} kills", columns, rows)


def _kill_job(kind: str, command: str, count: int) -> list[Any]:
    """Kill a kind of job so many times; when one has ended all the same, another is begun."""
    draw, kills, ended, identical = random.Random(kind), 0, 0, 0
    _clear()
    started = time.perf_counter()
    if not _command(command):
        raise SystemExit(f"kills: {kind}: {command} failed")
    whole, expected = time.perf_counter() - started, _result(kind)
    note(f"kills: {kind}, {seconds(whole)} undisturbed")
    while kills < count:
        _clear()
        while (good := _command(command, draw.uniform(0, whole) if kills < count else None)) is None:
            kills += 1
        ended += good
        identical += good and _result(kind) == expected
    return [kind, kills, ended, identical, seconds(whole)]


def _clear() -> None:
    """Remove what a job has made, and the answers that are cached."""
    for name in ("made", "home"):
        shutil.rmtree(name, ignore_errors=True)


def _command(command: str, kill_after: float | None = None) -> bool | None:
    """Whether a command ends well; None if it still ran after `kill_after` seconds."""
    words = [sys.executable, "-m", "knowgap", *command.split()]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return process.wait(kill_after) == 0
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


def _result(kind: str) -> Any:
    """What a job has found, without times and costs."""
    from knowgap.compiling import Evaluations
    from knowgap.retrieval import open_index

    if kind == "index":
        index = open_index("made")
        return sorted(passage.id for passage in index), index.search(["a painter of rivers"], 10)
    if kind == "eval":
        [found] = Evaluations.load("made").values()
        return [(record.id, record.answer, record.scores) for record in found.records]
    if kind == "compile":
        return json.loads(Path("made/artifact/program.json").read_text(encoding="utf-8"))
    return Path("made/artifact/program.json").exists()  # what is drawn after a kill depends on the trials before it
