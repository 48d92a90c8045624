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
import os
import random
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from forked import count_words, in_fork, rag_over_sample, sample, value_of
from table import Table, note, seconds

THREADS = 2
_EXPERIMENT = """
name = "tiny"
title = "Two programs"
[[columns]]
dataset = "sample"
split = "dev"
metrics = ["f1"]
[[rows]]
label = "direct"
program = "direct"
[[rows]]
label = "rag"
program = "rag"
"""


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--job-kills", type=int, help="of each kind of job (10; quick 1)")
    group.add_argument("--job-questions", type=int, help=f"that {' and '.join(ASKING)} ask (60; quick 12)")
    group.add_argument("--jobs", default=";".join(JOBS), help="kinds of jobs (%(default)s)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Kill every kind of job."""
    import torch

    torch.set_num_threads(1)  # a fork has no other threads
    _import()
    count = options.job_kills or (1 if options.quick else 10)
    questions = options.job_questions or (12 if options.quick else 60)
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as name:
        rows = [_kill_job(kind, Path(name), count, questions) for kind in options.jobs.split(";")]
    yield Table(
        f"{sum(row[1] for row in rows)} kills",
        ["job", "kills", "ended", "identical", "undisturbed", "calls", "calls repeated per kill", "leftovers"],
        rows,
    )


def _kill_job(kind: str, folder: Path, count: int, questions: int) -> list[Any]:
    """Kill a kind of job so many times; when one has ended all the same, another is begun."""
    job = functools.partial(JOBS[kind], questions) if kind in ASKING else JOBS[kind]
    draw = random.Random(kind)
    template, place = folder / f"{kind} template", folder / "job"
    template.mkdir()
    if kind in PREPARED:
        value_of(functools.partial(PREPARED[kind], template))

    def begin() -> None:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(template, place)

    begin()
    started = time.perf_counter()
    expected = value_of(functools.partial(job, place))
    whole = time.perf_counter() - started
    calls, files = _calls(place), _files(place)
    note(f"kills: {kind}, {seconds(whole)} undisturbed")
    kills = ended = identical = repeated = 0
    leftovers: set[str] = set()
    while kills < count:
        begin()
        outcome = "killed"
        while outcome == "killed":
            moment = draw.uniform(0, 0.7) * whole if kills < count else None
            outcome, value = in_fork(functools.partial(job, place), kill_after=moment)
            kills += outcome == "killed"
        ended += outcome == "value"
        identical += outcome == "value" and value == expected
        if outcome != "value" or value != expected:
            note(f"kills: {kind}: {outcome}, {str(value)[-500:]}")
        repeated += _calls(place) - calls
        leftovers |= _files(place) - files
    per_kill = f"{repeated / kills:.1f}" if calls else ""
    shutil.rmtree(template)
    told = ", ".join(sorted(leftovers)) or "none"
    return [kind, kills, ended, identical, seconds(whole), calls or "", per_kill, told]


def _calls(place: Path) -> int:
    path = place / "calls"
    return path.stat().st_size if path.exists() else 0


def _files(place: Path) -> set[str]:
    """Files and folders below a folder, apart from those of caches, whose names follow from moments.

    How often an index was changed, which is in the names of its segments, does not count.
    """
    names = {path.relative_to(place).as_posix() for path in place.rglob("*")}
    for number, segment in enumerate(sorted(place.rglob("segment-*"))):
        old, new = segment.relative_to(place).as_posix(), f"segment ({number})"
        names = {new + name.removeprefix(old) if name.startswith(old) else name for name in names}
    return {name for name in names if "cache" not in name}


def _import() -> None:
    """Import what jobs need, so that a fork has it."""
    for name in ("accelerate", "datasets", "sentence_transformers", "knowgap.retrieval.dense"):
        importlib.import_module(name)
    for name in ("compiling.compiler", "compiling.experiments.run", "lms.embedded.engine"):
        importlib.import_module(f"knowgap.{name}")
    sample()


def _lm(place: Path, *, cache: bool = False) -> Any:
    """The embedded reader, which takes 20 ms longer and counts its calls in a file."""
    import dspy

    from knowgap.lms.embedded.engine import ExtractiveEngine
    from knowgap.lms.providers import EXTRACTIVE, quiet_dspy

    class Counting(ExtractiveEngine):
        def complete(self, request: Any) -> Any:
            time.sleep(0.02)
            handle = os.open(place / "calls", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(handle, b".")
            os.close(handle)
            return super().complete(request)

    quiet_dspy(place / "lm-cache" if cache else None)
    return dspy.LM(EXTRACTIVE, engine=Counting(), cache=cache)


def _slow_encoder(texts: Sequence[str]) -> Any:
    time.sleep(0.1)
    return count_words(texts)


def _build(place: Path) -> Any:
    from knowgap.retrieval import DenseIndex, Passage

    texts = [passage.text for passage in sample()[0].corpus]
    passages = [Passage(str(number), "", f"{number} {texts[number % len(texts)]}") for number in range(8000)]
    DenseIndex.build(passages, place / "index", encoder=_slow_encoder)
    return _digests(place / "index")


def _prepare_colbert(place: Path) -> None:
    from knowgap.retrieval.colbert.checkpoint import write_embedded_checkpoint

    write_embedded_checkpoint(sample()[0].corpus, place / "checkpoint", dim=32)


def _build_colbert(place: Path) -> Any:
    """Build an index of ColBERT over the passages' first sentences."""
    from knowgap.retrieval import ColBERTIndex, Passage

    passages = [Passage(each.id, "", each.text.partition(". ")[0]) for each in sample()[0].corpus]
    ColBERTIndex.build(passages, place / "index", checkpoint=place / "checkpoint")
    return _digests(place / "index")


def _train(place: Path) -> Any:
    """Train a reranker for twelve steps."""
    from knowgap.compiling.training import RerankerConfig, reranker

    dataset, index = sample()
    config = RerankerConfig(batch_size=4, max_length=48, negatives=2)
    trained: Any = reranker(dataset, index, place / "model", config=config, limit=4)
    weights = (place / "model" / "model.safetensors").read_bytes()
    return trained.steps, trained.final_loss, zlib.crc32(weights)


def _digests(index: Path) -> Any:
    return json.loads((index / "manifest.json").read_text(encoding="utf-8"))["files"]


def _prepare_update(place: Path) -> None:
    from knowgap.retrieval import DenseIndex

    DenseIndex.build(sample()[0].corpus[:50], place / "index", encoder=count_words)


def _update(place: Path) -> Any:
    """Add and delete in 20 steps, with a merge in between; a step that was done is done again."""
    from knowgap.retrieval import DenseIndex

    passages = sample()[0].corpus
    index = DenseIndex.open(place / "index", encoder=count_words)
    for step in range(50, 250, 10):
        index.add(passages[step : step + 10], replace=True)
        index.delete([passages[step].id, passages[step - 50].id])
        if step == 150:
            index.merge()
    index.merge()
    return sorted(passage.id for passage in index), index.search(["a painter of rivers"], 10)


def _evaluate(questions: int, place: Path) -> Any:
    from knowgap.compiling import Run, evaluate

    program, examples = rag_over_sample(questions)
    result = evaluate(
        program, examples, "f1", run=Run(lm=_lm(place), num_threads=THREADS), output=place / "answers.jsonl"
    )
    return [(record.id, record.answer, record.scores) for record in result.records]


def _compile(questions: int, place: Path) -> Any:
    from knowgap.compiling import Run, compile, save

    program, examples = rag_over_sample(questions)
    lm = _lm(place, cache=True)
    options = {"optimizer": "bootstrap", "max_bootstrapped_demos": 40, "max_rounds": 1}
    compiled = compile(program, examples, "f1", trainset=examples, run=Run(lm, num_threads=1), **options).program
    save(compiled, place / "artifact", lm=lm)
    return json.loads((place / "artifact" / "program.json").read_text(encoding="utf-8"))


def _tune(place: Path) -> Any:
    from knowgap.compiling import Run, StudyConfig, compile

    program, examples = rag_over_sample(8)
    config = StudyConfig(n_trials=6, storage=place / "study.db", reuse=False, prune=False, hold_out=0)
    tuning = compile(program, examples, "f1", study=config, run=Run(_lm(place), THREADS)).study
    assert tuning is not None
    # What is drawn after a kill depends on the trials that were finished by then, and the defaults may be run last.
    return len(tuning.trials) >= 6, tuning.default and tuning.default.intermediate_values


def _experiment(place: Path) -> Any:
    from knowgap.compiling import Run
    from knowgap.compiling.experiments.run import Experiment

    (place / "table.toml").write_text(_EXPERIMENT, encoding="utf-8")
    experiment = Experiment(place / "table.toml", place / "out", engine="bm25", limit=30)
    result = experiment.run(Run(lm=_lm(place), num_threads=THREADS))
    return [line for column in result.table.columns for line in result.lines(column)]


def _save_first(place: Path) -> None:
    from knowgap.compiling import save

    save(rag_over_sample(1)[0], place / "artifact", lm="none")


def _replace_artifact(place: Path) -> Any:
    """Replace an artifact again and again; before that, it has to be whole."""
    from knowgap.compiling import load, save

    program, _ = rag_over_sample(1)
    assert load(place / "artifact").values()["top_k"] in range(1, 8)
    for top_k in [1, 2, 3, 4, 5, 6, 7] * 10:
        save(program.configure(top_k=top_k), place / "artifact", lm="none")
    return load(place / "artifact").values()


JOBS: dict[str, Callable[..., Any]] = {
    "index build": _build,
    "index build, ColBERT": _build_colbert,
    "index update": _update,
    "eval": _evaluate,
    "compile": _compile,
    "study": _tune,
    "experiment": _experiment,
    "replacing an artifact": _replace_artifact,
    "training": _train,
}
PREPARED: dict[str, Callable[[Path], None]] = {
    "index build, ColBERT": _prepare_colbert,
    "index update": _prepare_update,
    "replacing an artifact": _save_first,
}
ASKING = ("eval", "compile")  # jobs that take a number of questions
