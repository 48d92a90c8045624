"""Every kind of long job, killed (SIGKILL) at random moments and started again until it ends.

`identical` counts the ended jobs with the result of an undisturbed one, and `undisturbed` is the time that one takes.
`calls repeated per kill` counts the calls of the language model beyond those of an undisturbed job: what ran at the
moment of a kill is asked again. `leftovers` are files that an undisturbed job does not leave.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import multiprocessing
import os
import random
import re
import shutil
import tempfile
import time
import traceback
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from table import Table, note, seconds

THREADS = 2


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--job-kills", type=int, help="of each kind of job (10; quick 1)")
    group.add_argument("--jobs", default=";".join(JOBS), help="kinds of jobs (%(default)s)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Kill every kind of job."""
    import torch

    for name in ("compiling.compiler", "lms.embedded.engine", "retrieval.dense"):
        importlib.import_module(f"knowgap.{name}")  # a fork has what is imported before it
    torch.set_num_threads(1)  # a fork has no other threads
    sample()
    count, questions = options.job_kills or (1 if options.quick else 10), 12 if options.quick else 60
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as name:
        rows = [_kill_job(kind, Path(name), count, questions) for kind in options.jobs.split(";")]
    yield Table(
        f"{sum(row[1] for row in rows)} kills",
        ["job", "kills", "ended", "identical", "undisturbed", "calls", "calls repeated per kill", "leftovers"],
        rows,
    )


def _kill_job(kind: str, folder: Path, count: int, questions: int) -> list[Any]:
    """Kill a kind of job so many times; when one has ended all the same, another is begun."""
    job = functools.partial(JOBS[kind], questions)
    draw, place = random.Random(kind), folder / "job"

    def begin() -> None:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()

    begin()
    started = time.perf_counter()
    outcome, expected = _in_fork(functools.partial(job, place))
    if outcome != "value":
        raise SystemExit(f"{kind}: {expected}")
    whole = time.perf_counter() - started
    calls, files = _calls(place), _files(place)
    note(f"kills: {kind}, {seconds(whole)} undisturbed")
    kills = ended = identical = repeated = 0
    leftovers: set[str] = set()
    while kills < count:
        begin()
        outcome, value = "killed", None
        while outcome == "killed":
            moment = draw.uniform(0, 0.7) * whole if kills < count else None
            outcome, value = _in_fork(functools.partial(job, place), moment)
            kills += outcome == "killed"
        ended += outcome == "value"
        identical += outcome == "value" and value == expected
        if outcome != "value" or value != expected:
            note(f"kills: {kind}: {outcome}, {str(value)[-500:]}")
        repeated += _calls(place) - calls
        leftovers |= _files(place) - files
    per_kill = f"{repeated / kills:.1f}" if calls else ""
    told = ", ".join(sorted(leftovers)) or "none"
    return [kind, kills, ended, identical, seconds(whole), calls or "", per_kill, told]


def _in_fork(work: Callable[[], Any], kill_after: float | None = None) -> tuple[str, Any]:
    """Run work in a forked process, which shares what this one has imported.

    Returns:
        "value" and what it returned; "failed" and the traceback of an error; "killed" and None, if it still ran after
        `kill_after` seconds.
    """
    fork = multiprocessing.get_context("fork")
    receiving, sending = fork.Pipe(duplex=False)
    process = fork.Process(target=lambda: sending.send(_outcome(work)))
    process.start()
    sending.close()
    if not receiving.poll(kill_after):
        process.kill()
    try:
        return receiving.recv()
    except EOFError:
        return "killed", None
    finally:
        process.join()


def _outcome(work: Callable[[], Any]) -> tuple[str, Any]:
    with open(os.devnull, "wb") as nothing:  # the log of what it does
        os.dup2(nothing.fileno(), 2)
    try:
        return "value", work()
    except BaseException:  # whatever a kill leads to
        return "failed", traceback.format_exc(limit=-4)


@functools.cache
def sample() -> tuple[Any, Any]:
    """The sample, and an index of its passages in memory; forked processes share them."""
    from knowgap.compiling.data import load_dataset
    from knowgap.retrieval import BM25Index

    dataset = load_dataset("sample")
    return dataset, BM25Index.from_passages(dataset.corpus)


def _rag(questions: int) -> tuple[Any, Any]:
    """A program over the sample's passages, and some of its questions."""
    from knowgap.programs.baselines.rag import RAG

    dataset, index = sample()
    return RAG(index), dataset.questions("dev", questions)


def _count_words(texts: Sequence[str]) -> Any:
    """A slow encoder that needs no model: counts of words, each in the column of its hash."""
    time.sleep(0.1)
    vectors = np.full((len(texts), 64), 0.01)
    for row, text in enumerate(texts):
        for word in re.findall(r"\w+", text.lower()):
            vectors[row, zlib.crc32(word.encode()) % 64] += 1
    return vectors


def _calls(place: Path) -> int:
    path = place / "calls"
    return path.stat().st_size if path.exists() else 0


def _files(place: Path) -> set[str]:
    """Files and folders below a folder, but for caches; how often an index was changed, is left out."""
    names = {re.sub(r"segment-\d+", "segment", path.relative_to(place).as_posix()) for path in place.rglob("*")}
    return {name for name in names if "cache" not in name}


def _lm(place: Path, *, cache: bool = False) -> Any:
    """The embedded reader, which takes 20 ms longer and counts its calls in a file."""
    import dspy

    from knowgap.lms.cache import quiet_dspy
    from knowgap.lms.embedded.engine import ExtractiveEngine
    from knowgap.lms.providers import EXTRACTIVE

    class Counting(ExtractiveEngine):
        def complete(self, request: Any) -> Any:
            time.sleep(0.02)
            handle = os.open(place / "calls", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(handle, b".")
            os.close(handle)
            return super().complete(request)

    quiet_dspy(place / "lm-cache" if cache else None)
    return dspy.LM(EXTRACTIVE, engine=Counting(), cache=cache)


def _build(_: int, place: Path) -> Any:
    from knowgap.retrieval import DenseIndex, Passage

    texts = [passage.text for passage in sample()[0].corpus]
    passages = [Passage(str(number), "", f"{number} {texts[number % len(texts)]}") for number in range(8000)]
    DenseIndex.build(passages, place / "index", encoder=_count_words)
    return json.loads((place / "index" / "manifest.json").read_text(encoding="utf-8"))["files"]


def _update(_: int, place: Path) -> Any:
    """Add and delete in 20 steps, with a merge in between; a step that was done is done again."""
    from knowgap.retrieval import DenseIndex

    passages, folder = sample()[0].corpus, place / "index"
    if not folder.exists():
        DenseIndex.build(passages[:50], folder, encoder=_count_words)
    index = DenseIndex.open(folder, encoder=_count_words)
    for step in range(50, 250, 10):
        index.add(passages[step : step + 10], replace=True)
        index.delete([passages[step].id, passages[step - 50].id])
        if step == 150:
            index.merge()
    index.merge()
    return sorted(passage.id for passage in index), index.search(["a painter of rivers"], 10)


def _evaluate(questions: int, place: Path) -> Any:
    from knowgap.compiling import Run, evaluate

    program, examples = _rag(questions)
    result = evaluate(
        program, examples, "f1", run=Run(lm=_lm(place), num_threads=THREADS), output=place / "answers.jsonl"
    )
    return [(record.id, record.answer, record.scores) for record in result.records]


def _compile(questions: int, place: Path) -> Any:
    from knowgap.compiling import Run, compile, save

    program, examples = _rag(questions)
    lm = _lm(place, cache=True)
    options = {"optimizer": "bootstrap", "max_bootstrapped_demos": 40, "max_rounds": 1}
    compiled = compile(program, examples, "f1", trainset=examples, run=Run(lm, num_threads=1), **options).program
    save(compiled, place / "artifact", lm=lm)
    return json.loads((place / "artifact" / "program.json").read_text(encoding="utf-8"))


def _tune(_: int, place: Path) -> Any:
    from knowgap.compiling import Run, StudyConfig, compile

    program, examples = _rag(8)
    config = StudyConfig(n_trials=6, storage=place / "study.db", prune=False, hold_out=0)
    tuning = compile(program, examples, "f1", study=config, run=Run(_lm(place), THREADS)).study
    assert tuning is not None
    # What is drawn after a kill depends on the trials that were finished by then, and the defaults may be run last.
    return len(tuning.trials) >= 6, tuning.default and tuning.default.intermediate_values


JOBS: dict[str, Callable[[int, Path], Any]] = {
    "index build": _build,
    "index update": _update,
    "eval": _evaluate,
    "compile": _compile,
    "study": _tune,
}
"""Jobs by what they do; each gets a number of questions and a folder."""
