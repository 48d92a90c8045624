"""How close a question comes to its critical path.

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
from models.delayed_server import delayed_server
from table import Table, note

from knowgap.compiling.data import load_dataset
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


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Measure wall time over the critical path for each method."""
    repeat, delay = options.repeat or (3 if options.quick else 10), options.delay_ms / 1000
    data = load_dataset()
    warm, *questions = (example.question for example in data.splits["train"][: repeat + 1])
    rows = []
    with delayed_server(delay, at_once=64) as server:
        lm = make_lm("openai/gpt-4o-mini", api_base=server.api_base, cache=False, num_retries=0)
        for method in METHODS:
            note(f"concurrency: {method}")
            program = program_of(method, data.corpus)
            with dspy.context(lm=lm):
                program(question=warm)
                alone = [_alone(program, question, delay) for question in questions]
            calls, critical, _ = alone[0]
            rows.append([method, calls, critical, f"{median(ratio for *_, ratio in alone):.3f}"])
    title = f"{options.delay_ms:g} ms for a reply: calls of a question, those in sequence, and its time"
    columns = ["program", "calls", "in sequence", "wall / critical path"]
    yield Table(title, columns, rows, [f"Medians of {repeat} questions after one to warm up; the goal is 1.05."])


def _alone(program: Program, question: str, delay: float) -> tuple[int, int, float]:
    """The calls of a question, those on its critical path, and its time over that of the critical path."""
    started = time.perf_counter()
    cost = program(question=question).trace.cost
    return cost.lm_calls, cost.critical_calls, (time.perf_counter() - started) / (cost.critical_calls * delay)
