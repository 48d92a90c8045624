"""Memory and threads of this process while it answers thousands of questions, many at a time.

A local server answers every request after a fixed delay, and retrieval takes no time, so that nothing else keeps the
questions waiting. Memory is what the process holds at that moment (VmRSS); memory and threads must stay flat.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import dspy
import psutil
from concurrency import programs
from dspy.clients.base_lm import GLOBAL_HISTORY
from models.delayed_server import delayed_server
from table import Table, memory_of, note

from knowgap.compiling import evaluate
from knowgap.compiling.data import load_dataset
from knowgap.compiling.run import Run
from knowgap.lms import make_lm
from knowgap.programs.base import Program

COLUMNS = ["questions answered", "memory", "threads", "calls in DSPy's history"]
SAMPLES = 10


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--load-delay-ms", type=float, default=20.0, help="how long the server takes for a reply (20)")
    group.add_argument("--load-questions", type=int, help="questions of one call each (5000; quick 40)")
    group.add_argument("--load-acalls", type=int, help="questions that one event loop awaits at once (500; quick 20)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Measure memory and threads over time, in evaluations and under `acall`."""
    count = options.load_questions or (40 if options.quick else 5000)
    acalls = options.load_acalls or (20 if options.quick else 500)
    data = load_dataset()
    sample = [example for split in data.splits.values() for example in split]
    with delayed_server(options.load_delay_ms / 1000, 256) as server:
        lm = make_lm("openai/gpt-4o-mini", api_base=server.api_base, cache=False, num_retries=0)
        for name, number in (("rag", count), ("rq_rag", count // 20)):
            note(f"load: {name}")
            program, _ = programs(name, data.corpus)
            rows = _evaluated(program, _repeated(sample, number), lm)
            yield Table(f"{number} questions, 64 at once: {name}", COLUMNS, rows)
        note("load: acall")
        program, _ = programs("blend_filter", data.corpus)
        rows = _awaited(program, [example.question for example in _repeated(sample, acalls)], lm)
        yield Table(
            f"{acalls} concurrent acalls, {SAMPLES // 2} times: blend_filter",
            COLUMNS,
            rows,
            ["Threads are counted while questions are under way, and in the last row after all are answered."],
        )


def _evaluated(program: Program, examples: Sequence[dspy.Example], lm: dspy.LM) -> list[list[Any]]:
    rows: list[list[Any]] = [_sample(0)]
    step = max(1, len(examples) // SAMPLES)

    def progress(done: int, total: int, text: str) -> None:
        if done % step == 0:
            rows.append(_sample(done))

    evaluation = evaluate(program, examples, "f1", run=Run(lm=lm, num_threads=64, progress=progress))
    if evaluation.failures:
        raise SystemExit(f"{len(evaluation.failures)} questions failed: {evaluation.failures[0].error}")
    return [*rows, [f"{len(examples)}, at the end", *_sample(0)[1:]]]


def _awaited(program: Program, questions: Sequence[str], lm: dspy.LM) -> list[list[Any]]:
    rows: list[list[Any]] = [_sample(0)]

    async def ask_all() -> int:
        under_way = [asyncio.ensure_future(program.acall(question=question)) for question in questions]
        await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
        rows.append(_sample(len(rows) * len(questions) - len(questions)))
        return len(await asyncio.gather(*under_way))

    with dspy.context(lm=lm, disable_history=True):
        answered = sum(asyncio.run(ask_all()) for _ in range(SAMPLES // 2))
    return [*rows, [f"{answered}, at the end", *_sample(0)[1:]]]


def _repeated(sample: Sequence[dspy.Example], count: int) -> list[dspy.Example]:
    return [sample[n % len(sample)].copy(id=f"question {n}") for n in range(count)]


def _sample(answered: int) -> list[Any]:
    return [answered, memory_of(psutil.Process()), threading.active_count(), len(GLOBAL_HISTORY)]
