"""How often methods stop too early or too late, under a language model that you name, on questions of train sets.

`wrong early stops` is the share of questions whose search the model ended although a gold passage was missing, and
whose answer was wrong (F1 below 0.5). `needless rounds` is the mean number of rounds per question that began after all
gold passages had been taken up. A passage is taken up when a statement cites it or a note is written from it, or, in
methods that have neither, when a search returns it.

    python benchmarks/run.py stopping --data DATA --stopping-lm openai/NAME --stopping-api-base http://127.0.0.1:8081/v1

Answers are kept in a folder, from which the same command goes on.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from real_data import real_file
from table import Table, note, some_of

from knowgap.compiling import Evaluation, evaluate
from knowgap.compiling.data import load_dataset
from knowgap.compiling.run import Run
from knowgap.lms import make_lm
from knowgap.programs import get_program
from knowgap.programs.trace.steps import Extracted, Noted, Retrieved, Stopped
from knowgap.programs.trace.trace import Trace
from knowgap.retrieval.index.engines import open_or_build

FILES = {"HotpotQA": "hotpotqa/*train*.json", "2WikiMultihopQA": "2wikimultihopqa/*train*.json"}
OWN_ACCORD = ("answered", "no new question", "no new query")
"""Reasons of steps with which the model ends a search."""
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "MIGRES": ("migres", {}),
    "Adaptive-Note": ("adaptive_note", {}),
    "IRCoT": ("ircot", {}),
    "plain retrieval": ("rag", {}),
}


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--stopping-lm", help="the language model, such as openai/NAME")
    group.add_argument("--stopping-api-base", help="the address of its server")
    group.add_argument("--stopping-questions", type=int, default=20, help="questions of each data set")
    group.add_argument(
        "--stopping-arms",
        type=some_of(ARMS, ";"),
        default=";".join(ARMS),
        help="arms, joined by semicolons: %(default)s",
    )
    group.add_argument("--stopping-output", type=Path, default=Path("stopping"), help="folder of answers and indexes")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """One table for each data set."""
    if not options.stopping_lm:
        note("stopping is left out: name a model with --stopping-lm")
        return
    served = {"timeout": 900} if options.stopping_api_base else {}
    lm = make_lm(options.stopping_lm, api_base=options.stopping_api_base, **served)
    for name, pattern in FILES.items():
        if (path := real_file(options, name, pattern)) is None:
            continue
        data = load_dataset(path, split_as="dev", limit=100)
        output = options.stopping_output / lm.model.replace("/", "-")
        index = open_or_build(options.stopping_output / "indexes" / name, data.corpus, "colbert")
        rows = []
        for label in options.stopping_arms:
            program, settings = ARMS[label]
            found = evaluate(
                get_program(program)(index, **settings),
                data,
                "f1",
                limit=options.stopping_questions,
                run=Run(lm=lm, num_threads=4),
                output=output / f"{name}-{label}.jsonl",
                traces=True,
            )
            rows.append([label, *_figures(found)])
            note(" ".join([name, *map(str, rows[-1])]))
        yield Table(
            f"{name}, train questions, {lm.model}",
            [
                "method",
                "questions",
                "ended by the model",
                "wrong early stops",
                "needless rounds",
                "used",
                "f1",
                "calls",
            ],
            rows,
            ["used: share of gold passages that the answer rests on."],
        )


def _figures(found: Evaluation) -> list[str]:
    records = [(record, record.trace) for record in found.records if record.trace is not None]
    complete = {record.id: _complete_from(trace, record.gold) for record, trace in records}
    ended = [r for r, trace in records if any(step.reason in OWN_ACCORD for step in trace.of(Stopped)[:1])]
    wrong = [r for r in ended if complete[r.id] is None and (r.scores["f1"] or 0.0) < 0.5]
    needless = [max(0, r.cost.iterations - last) for r, _ in records if (last := complete[r.id]) is not None]
    count = max(1, len(records))
    return [
        f"{len(records)}",
        f"{len(ended) / count:.0%}",
        f"{len(wrong) / count:.0%}",
        f"{sum(needless) / count:.2f}",
        f"{found.mean('used'):.2f}",
        f"{100 * found.mean('f1'):.1f}",
        f"{found.costs()['lm_calls']:.1f}",
    ]


def _complete_from(trace: Trace, gold: list[str]) -> int | None:
    """The first round at whose end all gold passages were taken up."""
    taken: dict[str, int] = {}
    by_statement = [
        (step.iteration, source) for step in trace.of(Extracted) for source in itertools.chain(*step.sources)
    ]
    by_note = [(step.iteration, passage) for step in trace.of(Noted) for passage in step.passages]
    shown = [(step.iteration, passage) for step in trace.of(Retrieved) for hits in step.hits for passage in hits]
    for iteration, passage in by_statement or by_note or shown:
        taken.setdefault(passage, iteration)
    return max(taken[name] for name in gold) if gold and taken.keys() >= {*gold} else None
