"""What becomes of questions when the language model's server fails in nearly a third of its answers.

A server that speaks OpenAI's protocol answers with the embedded reader, and fails in many ways. Each program is
evaluated under these faults, and again by the same command when the server has recovered. Every question has to be
answered or named as failed, what was answered must not be asked again, and the second run must ask only what failed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy
from models.fault_server import KINDS, FaultServer, fault_server
from table import Table, note

from knowgap.compiling import Evaluation, evaluate
from knowgap.compiling.data import load_dataset
from knowgap.compiling.run import Run
from knowgap.lms import make_lm, quiet_dspy
from knowgap.programs import get_program
from knowgap.programs.base import Program
from knowgap.retrieval import BM25Index

PROGRAMS = ("rag", "migres", "adaptive_note", "ra_isf", "rq_rag", "blend_filter")


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--faults", type=float, default=0.3, help="share of the server's answers that fail (0.3)")
    group.add_argument("--faults-seed", type=int, default=0, help="which requests fail (0)")
    group.add_argument("--faults-questions", type=int, help="questions for each program (25; quick 2)")
    group.add_argument("--faults-programs", default=",".join(PROGRAMS), help="programs (%(default)s)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Evaluate each program under faults, and again without them."""
    count = options.faults_questions or (2 if options.quick else 25)
    data = load_dataset()
    index, examples = BM25Index.from_passages(data.corpus), data.questions("dev", count)
    quiet_dspy()  # an empty cache, in memory
    rows, counts = [], {kind: Counter[str]() for kind in KINDS}
    timeout = 3.0
    with (
        tempfile.TemporaryDirectory() as folder,
        fault_server(options.faults, seed=options.faults_seed, slow=timeout + 1) as server,
    ):
        lm = make_lm("openai/gpt-4o-mini", api_base=server.api_base, api_key="none", timeout=timeout)
        for name in options.faults_programs.split(","):
            note(f"faults: {name}")
            rows.append(_row(get_program(name)(index), examples, server, lm, Path(folder) / f"{name}.jsonl"))
            for kind, more in server.counts().items():
                counts[kind] += more
        yield Table(
            f"{100 * options.faults:g}% of answers fail, seed {options.faults_seed}: {count} questions",
            [
                "program", "answered", "failed, named", "as without faults", "replies unreadable", "replies cut",
                "calls", "answered more often than needed", "questions asked", "calls then", "failed then",
            ],
            rows,
            [
                "Calls are those that reached the server. Answered more often than needed: sound replies to a request "
                "beyond those that it gets where nothing fails. The last three columns are of the second run."
            ],
        )  # fmt: skip
    columns = ("calls", "asked again", "recovered", "lost")
    yield Table(
        "The same by kind of fault",
        ["answer", *columns],
        [[kind, *(counts[kind][column] for column in columns)] for kind in KINDS],
        [
            "Recovered: the request got a sound reply, then or, where it was asked twice at a time, before. Lost: it "
            "got none; a reply that cannot be read twice costs its step, and not the question."
        ],
    )


def _row(program: Program, examples: list[dspy.Example], server: FaultServer, lm: dspy.LM, output: Path) -> list[Any]:
    with server.reliable():
        sound = evaluate(program, examples, "f1", run=Run(lm=lm.copy(cache=False), num_threads=16))
    needed = server.sound_replies()
    server.served.clear()
    under_faults = _evaluate(program, examples, lm, output)
    got, calls = server.sound_replies(), _calls(server)
    failed = under_faults.failures
    if len(under_faults.records) != len(examples) or not all(record.error.strip() for record in failed):
        raise SystemExit(f"{program.name}: not every question is answered or named as failed")
    pairs = zip(under_faults.records, sound.records, strict=True)
    asked: list[str] = []
    with server.reliable():
        second = _evaluate(program, examples, lm, output, asked)
    return [
        program.name,
        len(examples) - len(failed),
        len(failed),
        sum(one.answer == other.answer for one, other in pairs),
        under_faults.spoilt()["unreadable"],
        under_faults.spoilt()["cut"],
        calls,
        sum(max(0, got[request] - count) for request, count in needed.items() if count),
        len(asked),
        _calls(server) - calls,
        len(second.failures),
    ]


def _evaluate(
    program: Program, examples: list[dspy.Example], lm: dspy.LM, output: Path, asked: list[str] | None = None
) -> Evaluation:
    class Counting(type(program)):
        def __call__(self, *args: Any, **kwargs: Any) -> dspy.Prediction:
            if asked is not None:
                asked.append(kwargs["question"])
            return super().__call__(*args, **kwargs)

    program.__class__ = Counting
    try:
        return evaluate(program, examples, "f1", run=Run(lm=lm, num_threads=16), output=output)
    finally:
        program.__class__ = Counting.__mro__[1]


def _calls(server: FaultServer) -> int:
    return sum(map(len, server.served.values()))
