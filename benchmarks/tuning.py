"""What sharing and pruning save in a study of hyperparameters.

One study shares answers, retrieved lists and scores between its trials and stops (prunes) trials that can be
expected to gain little over the best. The other shares nothing and asks every dev question in every trial. Program,
data, seed and number of trials are the same. Trials after a pruned one may differ, since the sampler sees only a part
of its scores.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from table import Table, note, ratio, seconds

from knowgap.compiling import Run, StudyConfig, compile
from knowgap.compiling.data import load_dataset
from knowgap.lms import extractive_lm, quiet_dspy
from knowgap.programs import get_program
from knowgap.retrieval import BM25Index, ColBERTIndex, open_index


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--tuned", default="migres", help="the program (migres)")
    group.add_argument("--trials", type=int, help="finished trials of each study (40; quick 6)")
    group.add_argument("--dev-questions", type=int, help="dev questions of the sample (all 100; quick 20)")
    group.add_argument("--tuning-index", choices=("colbert", "bm25"), help="what searches (colbert; quick bm25)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Measure calls to the language model and wall time of two studies, each in its own process."""
    n_trials = options.trials or (6 if options.quick else 40)
    n_dev = options.dev_questions or (20 if options.quick else None)
    engine = options.tuning_index or ("bm25" if options.quick else "colbert")
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as folder:
        (ColBERTIndex if engine == "colbert" else BM25Index).build(load_dataset().corpus, Path(folder) / "index")
        rows: dict[str, dict[str, Any]] = {}
        for name, saving in {"sharing and pruning": True, "neither": False}.items():
            note(f"tuning: {n_trials} trials of {options.tuned}, {name}")
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                rows[name] = pool.submit(study, options.tuned, Path(folder) / "index", n_trials, n_dev, saving).result()
    base = rows["neither"]
    yield Table(
        f"{n_trials} trials of {options.tuned} on the sample, {base['dev']} dev questions, {engine}",
        ["study", "LM calls", "share of calls", "wall", "share of wall", "pruned", "questions asked",
         "dev F1, defaults", "dev F1, best"],
        [
            [name, row["calls"], ratio(row["calls"], base["calls"]), seconds(row["wall"]),
             ratio(row["wall"], base["wall"]), row["pruned"], row["questions"], f"{row['default']:.3f}",
             f"{row['best']:.3f}"]
            for name, row in rows.items()
        ],
        ["With the embedded reader; with a language model the share of wall time nears that of calls."],
    )  # fmt: skip


def study(tuned: str, index: Path, n_trials: int, n_dev: int | None, saving: bool) -> dict[str, Any]:
    """Run one study of a program over an index; `saving` shares and prunes, `n_dev` None takes all questions."""
    quiet_dspy()
    data, retriever = load_dataset(), open_index(index)
    retriever.search([data.splits["dev"][0].question], 1)  # load the encoder before the study
    started = time.perf_counter()
    config = StudyConfig(n_trials=n_trials, reuse=saving, prune=saving, hold_out=0)
    run = Run(extractive_lm(), num_threads=2)
    tuning = compile(get_program(tuned)(retriever), data, "f1", limit=n_dev, study=config, run=run).study
    assert tuning is not None
    assert tuning.default is not None
    return {
        "calls": tuning.spent.calls,
        "wall": time.perf_counter() - started,
        "pruned": len(tuning.trials) - len(tuning.complete),
        "questions": sum(len(trial.intermediate_values) for trial in tuning.trials),
        "default": tuning.default.values[0],
        "best": tuning.best.values[0],
        "dev": len(tuning.objective.questions),
    }
