"""Trainings that are killed (SIGKILL) at random moments and started again until they end; and what training gains.

`identical`: whether the weights of the killed training are those of the undisturbed one, to the last bit. Gains are
measured on questions of the bundled sample that are not trained on, with 95% bootstrap intervals; p is that of a paired
permutation test against what the index finds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from table import Table, note, seconds

from knowgap.compiling.data import load_dataset
from knowgap.retrieval import BM25Index

KINDS = ("reranker", "colbert")


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--training-kills", type=int, help="of each kind of model (3; quick 1)")
    group.add_argument("--training-kinds", default=",".join(KINDS), help="kinds of models (%(default)s)")
    group.add_argument(
        "--training-questions", type=int, help="of the sample's train split (100; quick 8; 0: kills only)"
    )


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Kill trainings, and measure what trainings gain."""
    kills = options.training_kills or (1 if options.quick else 3)
    kinds = options.training_kinds.split(",")
    questions = options.training_questions
    if questions is None:
        questions = 8 if options.quick else 100
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as name:
        folder = Path(name)
        columns = ["model", "steps", "loss", "kills", "loss after kills", "identical", "undisturbed", "with kills"]
        for kind in kinds:
            yield Table(f"{kind}, killed", columns, [_kill(kind, folder, kills, options.quick)])
        if questions:
            yield Table(
                f"trained on {questions} questions of the sample, from the models that come with knowgap",
                ["model", "order", "gold in best 5", "MRR", "p", "training"],
                [row for kind in kinds for row in _gains(kind, folder, questions, options.quick)],
            )


def _command(kind: str, output: Path, *words: str) -> list[str]:
    given = ["--data", "sample", "--output", str(output), "--set", "max_length=128"]
    return [sys.executable, "-m", "knowgap", "train", kind, *given, *words]


def _set(**settings: Any) -> list[str]:
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


def _index(folder: Path) -> Path:
    """A BM25 index of the sample."""
    if not (folder / "bm25").exists():
        BM25Index.build(load_dataset("sample").corpus, folder / "bm25")
    return folder / "bm25"


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "KNOWGAP_HOME": str(folder / "home")}


def _kill(kind: str, folder: Path, kills: int, quick: bool) -> list[Any]:
    """A row: a training that is not disturbed, and the same one with so many kills."""
    words = ["--index", str(_index(folder)), *_set(batch_size=4, negatives=2, measured_on="none")]
    words += ["--limit", "4", *_set(max_length=48)] if quick else ["--limit", "8"]
    rng, counts = random.Random(kind), []
    started = time.perf_counter()
    whole = folder / f"{kind}-whole"
    subprocess.run(_command(kind, whole, *words), env=_environment(folder), check=True, capture_output=True)
    undisturbed, started = time.perf_counter() - started, time.perf_counter()
    killed = folder / f"{kind}-killed"
    checkpoints = folder / f".{killed.name}.training"
    for n in range(kills):
        steps = _record(whole)["steps"]
        wanted = rng.randrange(n * steps // kills, (n + 1) * steps // kills)
        process = subprocess.Popen(
            _command(kind, killed, *words),
            env=_environment(folder),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while process.poll() is None and _last(checkpoints) <= wanted:
            time.sleep(0.05)
        time.sleep(rng.random() * 0.5)
        process.send_signal(signal.SIGKILL)
        counts.append(process.wait() == -signal.SIGKILL)
        note(f"{kind}: killed after checkpoint {_last(checkpoints)} of {steps} steps")
    subprocess.run(_command(kind, killed, *words), env=_environment(folder), check=True, capture_output=True)
    one, other = _record(whole), _record(killed)
    weights = [(path / "model.safetensors").read_bytes() for path in (whole, killed)]
    times = [seconds(undisturbed), seconds(time.perf_counter() - started)]
    losses = [f"{one['final_loss']:.6f}", sum(counts), f"{other['final_loss']:.6f}"]
    return [kind, one["steps"], *losses, "yes" if weights[0] == weights[1] else "no", *times]


def _last(checkpoints: Path) -> int:
    """The step of the last whole checkpoint; -1 before the first."""
    return max(
        (int(path.parent.name[11:]) for path in checkpoints.glob("*/checkpoint-*/trainer_state.json")), default=-1
    )


def _record(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "training.json").read_text(encoding="utf-8"))


def _gains(kind: str, folder: Path, questions: int, quick: bool) -> Iterator[Sequence[Any]]:
    """Rows: where gold passages rank in the index (of ColBERT; quick: BM25), before and after the training."""
    words = ["--limit", str(questions), "--json"]
    words += ["--index", str(_index(folder)), *_set(max_length=48, depth=8)] if quick else []
    command = _command(kind, folder / f"{kind}-{questions}", *words)
    run = subprocess.run(command, env=_environment(folder), check=True, stdout=subprocess.PIPE)
    [result] = json.loads(run.stdout).values()
    for order, score in result["scores"].items():
        recall, mrr = (
            f"{mean['mean']:.3f} [{mean['low']:.3f}, {mean['high']:.3f}]"
            for mean in (score["means"]["recall@5"], score["means"]["mrr"])
        )
        p_value = f"{score['comparison']['p_value']:.3f}" if score["comparison"] else ""
        steps = f"{result['steps']} steps, {seconds(result['seconds'])}" if order == "trained" else ""
        yield [kind, order, recall, mrr, p_value, steps]
