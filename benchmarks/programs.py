"""One study of several programs against a study of each: the test score of what is chosen, and what it costs.

The first study searches among all programs, their settings included. The others tune one program each, with as many
trials as the first has in all. The first few trials of each of these show what shorter studies would have found, which
together have about as many trials as the first: a study follows from its seed, so a shorter one is the beginning of a
longer one. Every study starts with empty caches; answers, retrieved lists and scores are shared within each.

The second table counts what programs share: every program that a study can tune with nothing but an index and a
language model has one trial, with its defaults, in a study of all programs and in a study of its own.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dspy
from table import Table, note, ratio, seconds

from knowgap.compiling import StudyConfig, StudyResult, compile, evaluate
from knowgap.compiling.data import load_dataset
from knowgap.compiling.run import Run
from knowgap.compiling.study.trials import TrialResult, choose
from knowgap.lms import extractive_lm
from knowgap.programs import PROGRAMS, get_program
from knowgap.retrieval import BM25Index, open_index

COMPARED = ("rag", "migres", "adaptive_note", "ra_isf", "rq_rag", "blend_filter")


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--compared", default=",".join(COMPARED), help="the programs (rag and the five methods)")
    group.add_argument("--study-trials", type=int, help="finished trials of each study (18; quick 12)")
    group.add_argument(
        "--study-questions", type=int, help="dev questions, and half of the test questions (20; quick 10)"
    )
    group.add_argument("--shared", help="the programs that share results in the second table (all that can be tuned)")
    group.add_argument("--study-seeds", type=int, default=1, help="studies are repeated with so many seeds (1)")


@dataclass(frozen=True)
class Row:
    """What a study, or several, found: the chosen trial's scores, and calls to the language model in all."""

    name: str
    n_trials: int
    chosen: str
    dev: float
    test: float
    calls_per_question: float
    calls: int


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Run the studies, score what they choose on the test split, and compare."""
    names = options.compared.split(",")
    n_trials = options.study_trials or (12 if options.quick else 18)
    n_questions = options.study_questions or (10 if options.quick else 20)
    data = load_dataset()
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as folder:
        BM25Index.build(data.corpus, Path(folder) / "index")
        bench = Bench(data, open_index(Path(folder) / "index"), n_questions)
        for seed in range(options.study_seeds):
            started = time.perf_counter()
            rows = bench.rows(names, n_trials, seed)
            yield _table(
                rows,
                f"{len(names)} programs, {n_questions} dev and {2 * n_questions} test questions, seed {seed}",
                started,
            )

        yield bench.sharing(options.shared.split(",") if options.shared else _tunable(), 5 if options.quick else 10)


def _table(rows: Sequence[Row], title: str, started: float) -> Table:
    together, *apart, few, many = rows
    highest = max(apart, key=lambda row: row.test)
    cells = [
        [
            row.name,
            row.n_trials,
            row.chosen,
            f"{row.dev:.3f}",
            f"{row.test:.3f}",
            f"{row.test - many.test:+.3f}",
            f"{row.calls_per_question:.1f}",
            row.calls,
            ratio(row.calls, many.calls),
        ]
        for row in rows
    ]
    columns = ["study", "trials", "chosen", "dev F1", "test F1", "against all", "calls a question", "calls", "share"]
    remarks = [
        f"Goal: test F1 within 0.010 of the best of all, at a third of the calls. It is "
        f"{together.test - many.test:+.3f} at {ratio(together.calls, many.calls)}; against studies with as many trials "
        f"together, {together.test - few.test:+.3f} at {ratio(together.calls, few.calls)}.",
        f"The best of several studies is the one with the higher dev score; the highest test F1 is {highest.name}'s "
        f"{highest.test:.3f}. {seconds(time.perf_counter() - started)}.",
    ]
    return Table(title, columns, cells, remarks)


class Counting:
    """A retriever that counts the queries that reach it."""

    def __init__(self, retriever: Any):
        self.retriever, self.n_queries = retriever, 0

    def search(self, queries: Sequence[str], k: int) -> Any:
        """Count, and search."""
        self.n_queries += len(queries)
        return self.retriever.search(queries, k)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.retriever, name)

    def __deepcopy__(self, memo: Any) -> Counting:
        return self


class Bench:
    """The sample with an index and the embedded reader."""

    def __init__(self, data: Any, retriever: Any, n_questions: int):
        self.data, self.retriever, self.n_questions = data, Counting(retriever), n_questions

    def sharing(self, names: Sequence[str], n_questions: int) -> Table:
        """Calls to the language model and searches of one trial of some programs, together and apart."""
        counted: dict[str, tuple[int, int]] = {}
        for label, studies in {"together": [names], "apart": [[name] for name in names]}.items():
            note(f"programs: one trial of each, {label}")
            before, calls = self.retriever.n_queries, 0
            for several in studies:
                unpruned = StudyConfig(prune=False)
                calls += self.tune(several, len(several), 0, n_questions=n_questions, study=unpruned).spent.calls
            counted[label] = calls, self.retriever.n_queries - before
        both = zip(counted["together"], counted["apart"], strict=True)
        rows = [
            [what, together, apart, ratio(together, apart)]
            for what, (together, apart) in zip(
                ("calls to the language model", "queries to the index"), both, strict=True
            )
        ]
        title = f"One trial of each of {len(names)} programs, {n_questions} dev questions"
        return Table(title, ["", "together", "apart", "share"], rows)

    def rows(self, names: Sequence[str], n_trials: int, seed: int) -> list[Row]:
        """The study of all programs; that of each; and the best of these, with few trials and with all."""
        note(f"programs: {n_trials} trials of {', '.join(names)}")
        together = self.tune(names, n_trials, seed)
        rows = [self.row("together", together, n_trials)]
        n_few = max(1, n_trials // len(names))
        apart: list[Row] = []
        few: list[Row] = []
        for name in names:
            note(f"programs: {n_trials} trials of {name}")
            tuning = self.tune([name], n_trials, seed)
            apart.append(self.row(name, tuning, n_trials))
            few.append(self.row(name, tuning, n_few))
        return [*rows, *apart, _best(few, "best of these, few trials each"), _best(apart, "best of these")]

    def tune(
        self, names: Sequence[str], n_trials: int, seed: int, *, n_questions: int = 0, study: StudyConfig | None = None
    ) -> StudyResult[Any]:
        """Run a study of some programs with empty caches."""
        dspy.cache.reset_memory_cache()
        n_questions = n_questions or self.n_questions
        found = compile(
            [get_program(name)(self.retriever) for name in names],
            self.data,
            "f1",
            limit=n_questions,
            config=study,
            n_trials=n_trials,
            seed=seed,
            lm=extractive_lm(),
            num_threads=1,
        )
        assert found.study is not None
        return found.study

    def row(self, name: str, tuning: StudyResult[Any], n_trials: int) -> Row:
        """What the first trials of a study found."""
        trials: list[TrialResult] = tuning.trials[:n_trials]
        best = choose(trials)
        test = self.data.splits["test"][: 2 * self.n_questions]
        scored = evaluate(tuning.program_of(best), test, ["f1"], run=Run(lm=extractive_lm(), num_threads=1))
        return Row(
            name=name,
            n_trials=len(trials),
            chosen=f"{best.program} ({best.label})",
            dev=best.score,
            test=scored.interval("f1").mean,
            calls_per_question=best.cost("lm_calls"),
            calls=tuning.setup.calls + sum(trial.spent.calls for trial in trials),
        )


def _tunable() -> list[str]:
    """The programs that a study can tune with nothing but an index and a language model."""
    classes = {name: get_program(name) for name in PROGRAMS}
    return [name for name, c in classes.items() if not c.needs and any(h.tune for h in c.hyperparameters().values())]


def _best(rows: Sequence[Row], name: str) -> Row:
    best = max(rows, key=lambda row: (row.dev, -row.calls_per_question))
    n_trials, calls = sum(row.n_trials for row in rows), sum(row.calls for row in rows)
    return replace(best, name=name, n_trials=n_trials, calls=calls)
