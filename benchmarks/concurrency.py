"""How close one question comes to its critical path, and how busy many questions keep a language model's server.

A local server answers every request after a fixed delay. The critical path of a question is the longest chain of calls
that must wait for one another, times the delay: no program can be faster. Retrieval, reranking and entailment are
stand-ins that take no time, so whatever exceeds 1.00 is the work of the programs, DSPy and the HTTP client.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import dspy
from models.delayed_server import Server, delayed_server
from table import Table, note

from knowgap.compiling import evaluate
from knowgap.compiling.data import load_dataset
from knowgap.compiling.run import Run
from knowgap.lms import make_lm
from knowgap.programs import get_program
from knowgap.programs.base import Program
from knowgap.retrieval.passage import Hit, NeverCopied, Passage

METHODS = ("knowgap", "migres", "adaptive_note", "ra_isf", "rq_rag", "blend_filter")


class FixedRetriever(NeverCopied):
    """Returns some passages at once, others for another query."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._passages = list(passages)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return `k` passages for each query."""
        starts = [sum(query.encode()) % 64 * k for query in queries]
        places = [[(start + n) % len(self._passages) for n in range(k)] for start in starts]
        return [[Hit(self._passages[at], 1.0 / n, n) for n, at in enumerate(own, start=1)] for own in places]


class Agreeing:
    """A reranker and entailment model that calls every pair relevant and entailed, with different scores."""

    name = scale = "agreeing"
    default_threshold: float | None = 0.5

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Score each pair from 1 to 2."""
        return [1.0 + len(pair[1]) % 97 / 97 for pair in pairs]

    entails = score


def program_of(method: str, passages: Sequence[Passage]) -> Program:
    """Make a method over some passages, with parts that take no time."""
    parts: dict[str, Any] = {"reranker": Agreeing(), "entailment": Agreeing()} if method == "migres" else {}
    return get_program(method)(FixedRetriever(passages), **parts)


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--delay-ms", type=float, default=200.0, help="how long the server takes for a reply (200)")
    group.add_argument("--repeat", type=int, help="questions asked one after another (10; quick 3)")
    group.add_argument("--questions", type=int, help="questions asked together (256; quick 64)")
    group.add_argument("--at-once", type=int, default=64, help="questions, and requests to the server, at once (64)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Measure wall time over the critical path, and how busy the server is, for each method."""
    repeat = options.repeat or (3 if options.quick else 10)
    data = load_dataset()
    examples = [example for split in data.splits.values() for example in split]
    together = min(options.questions or (64 if options.quick else 256), len(examples))
    rows = []
    with delayed_server(options.delay_ms / 1000, options.at_once) as server:
        lm = make_lm("openai/gpt-4o-mini", api_base=server.api_base, cache=False, num_retries=0)
        for method in METHODS:
            note(f"concurrency: {method}")
            program = program_of(method, data.corpus)
            with dspy.context(lm=lm):
                program(question=examples[-1].question)
                alone = [_alone(program, example.question, server.delay) for example in examples[:repeat]]
            calls, critical, _ = alone[0]
            ratio = median(ratio for *_, ratio in alone)
            rows.append([method, calls, critical, f"{ratio:.3f}", *_together(program, server, lm, examples[:together])])
    yield Table(
        f"{options.delay_ms:g} ms for a reply: one question, and {together} questions, {options.at_once} at once",
        ["program", "calls", "in sequence", "wall / critical path", "together", "CPU per call", "server busy"],
        rows,
        [
            f"Medians of {repeat} questions after one to warm up; goals: wall / critical path at most 1.05, "
            "server busy at least 95%. Busy is the share of the server's capacity that was used from the first request "
            "to the last reply, the run-up and the last questions included. CPU per call is what this process computes "
            "(DSPy, client, program) for a call; calls that start together wait for one another's share of it."
        ],
    )


def _alone(program: Program, question: str, delay: float) -> tuple[int, int, float]:
    """The calls of a question, those on its critical path, and its time over that of the critical path."""
    started = time.perf_counter()
    cost = program(question=question).trace.cost
    return cost.lm_calls, cost.critical_calls, (time.perf_counter() - started) / (cost.critical_calls * delay)


def _together(program: Program, server: Server, lm: dspy.LM, examples: Sequence[dspy.Example]) -> list[str]:
    """The time of many questions, the processor time of a call, and how busy the server was."""
    server.counts()
    started, cpu = time.perf_counter(), time.process_time()
    evaluation = evaluate(program, examples, "f1", run=Run(lm=lm, num_threads=server.at_once))
    span, cpu = time.perf_counter() - started, time.process_time() - cpu
    if failures := evaluation.failures:
        raise SystemExit(f"{program.name} failed on {len(failures)} questions: {failures[0].error}")
    calls = sum(record.cost.lm_calls for record in evaluation.records)
    return [f"{span:.1f} s", f"{1000 * cpu / calls:.1f} ms", f"{100 * server.busy():.1f}%"]
