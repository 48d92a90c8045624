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
from models import Finder
from models.delayed_server import delayed_server
from table import Table

from knowgap.compiling.data import load_dataset
from knowgap.lms import make_lm
from knowgap.programs import get_program
from knowgap.programs.base import Program
from knowgap.retrieval.passage import Passage

METHODS = ("knowgap", "migres", "adaptive_note", "ra_isf", "rq_rag", "blend_filter")


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

    def find(query: str, k: int) -> list[Passage]:
        start = sum(query.encode()) % 64 * k
        return [passages[(start + n) % len(passages)] for n in range(k)]

    return get_program(method)(Finder(find), **parts)


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Measure wall time over the critical path for each method."""
    repeat, delay = options.count or (3 if options.quick else 10), options.delay_ms / 1000
    data = load_dataset()
    warm, *questions = (example.question for example in data.splits["train"][: repeat + 1])
    rows = []
    with delayed_server(delay, at_once=64) as address:
        lm = make_lm("openai/gpt-4o-mini", api_base=address, cache=False, num_retries=0)
        for method in options.programs or METHODS:
            program = program_of(method, data.corpus)
            with dspy.context(lm=lm):
                program(question=warm)
                ratios = list[float]()
                for question in questions:
                    started = time.perf_counter()
                    cost = program(question=question).trace.cost
                    ratios.append((time.perf_counter() - started) / (cost.critical_calls * delay))
            rows.append([method, cost.lm_calls, cost.critical_calls, f"{median(ratios):.3f}"])
    said = f"{options.delay_ms:g} ms for a reply; medians of {repeat} questions after one to warm up; the goal is 1.05."
    yield Table(
        "Calls and time of a question", ["program", "calls", "in sequence", "wall / critical path"], rows, [said]
    )
