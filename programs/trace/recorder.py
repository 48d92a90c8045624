"""Records the trace of a question while it is answered, and runs independent steps concurrently.

A `TraceRecorder` belongs to one question. Each concurrent branch writes to a fork of it. The forks are joined in the
order in which the branches were started, so neither trace nor answer depends on which branch ends first.
"""

from __future__ import annotations

import contextvars
import functools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import dspy

from knowgap.programs.trace.steps import Prompted, Step
from knowgap.programs.trace.trace import Cost, Trace
from knowgap.retrieval.passage import Passage

__all__ = ["TraceRecorder", "current_recorder", "recording", "run_concurrently"]

T = TypeVar("T")

_SUMMED = ("lm_calls", "cached_calls", "prompt_tokens", "completion_tokens", "retrievals", "knowledge_tokens")

_RUN: contextvars.ContextVar[TraceRecorder | None] = contextvars.ContextVar("knowgap_run", default=None)


class TraceRecorder:
    """The record of one question, or of one branch of it."""

    def __init__(self, started: float, concurrent: bool, iteration: int = 0, branch: str = ""):
        self.started, self.concurrent = started, concurrent
        self.iteration, self.branch = iteration, branch
        self.steps: list[Step] = []
        self.passages: dict[str, Passage] = {}
        self.read: dict[str, None] = {}
        self.cost = Cost()
        self.model_texts: set[str] = set()  # passages that the model wrote from memory

    def add(self, step: Step, *passages: Passage) -> None:
        """Append a step, with the passages it names."""
        step.iteration = step.iteration or self.iteration
        step.branch = step.branch or self.branch
        step.at = round(time.perf_counter() - self.started, 6)
        self.steps.append(step)
        if isinstance(step, Prompted):
            self.model_texts.add(step.text)
        for passage in passages:
            self.passages.setdefault(passage.id, passage)

    def count_read(self, passages: Sequence[Passage]) -> None:
        """Count passages as read by the language model."""
        for passage in passages:
            self.passages.setdefault(passage.id, passage)
            self.read[passage.id] = None

    def fork(self, branch: str = "") -> TraceRecorder:
        """A run for a branch that may run at the same time as others."""
        path = "/".join(part for part in (self.branch, branch) if part)
        child = TraceRecorder(self.started, self.concurrent, self.iteration, path)
        child.model_texts = set(self.model_texts)
        child.cost.critical_calls = self.cost.critical_calls
        child.cost.critical_seconds = self.cost.critical_seconds
        return child

    def join(self, children: Sequence[TraceRecorder]) -> None:
        """Take over what branches wrote, in their order; the longest of them decides the critical path."""
        for child in children:
            self.steps += child.steps
            self.passages |= {i: passage for i, passage in child.passages.items() if i not in self.passages}
            self.read.update(child.read)
            self.model_texts |= child.model_texts
            for field in _SUMMED:
                setattr(self.cost, field, getattr(self.cost, field) + getattr(child.cost, field))
            self.cost.iterations = max(self.cost.iterations, child.cost.iterations)
        if self.concurrent:
            chains = [child.cost for child in children]
            self.cost.critical_calls = max(cost.critical_calls for cost in chains)
            self.cost.critical_seconds = max(cost.critical_seconds for cost in chains)
        else:
            start = (self.cost.critical_calls, self.cost.critical_seconds)
            self.cost.critical_calls = start[0] + sum(c.cost.critical_calls - start[0] for c in children)
            self.cost.critical_seconds = start[1] + sum(c.cost.critical_seconds - start[1] for c in children)

    def finish(self, program: str, question: str) -> Trace:
        """The trace of the whole question."""
        self.cost.passages = len(self.read)
        self.cost.seconds = time.perf_counter() - self.started
        named = {passage_id: passage.to_dict() for passage_id, passage in self.passages.items()}
        return Trace.model_construct(
            program=program, question=question, steps=self.steps, passages=named, cost=self.cost
        )


def current_recorder() -> TraceRecorder:
    """The run of the question being answered in this thread."""
    run = _RUN.get()
    if run is None:
        raise RuntimeError("no question is being answered here: call the program, not its forward")
    return run


@contextmanager
def recording(run: TraceRecorder) -> Iterator[TraceRecorder]:
    """Make `run` the one that steps are written to."""
    token = _RUN.set(run)
    try:
        yield run
    finally:
        _RUN.reset(token)


@functools.cache
def _pool() -> ThreadPoolExecutor:
    """Threads for all questions: as many as are needed at once, since tasks may wait for tasks of their own."""
    return ThreadPoolExecutor(max_workers=100_000, thread_name_prefix="knowgap")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked process has none of the threads


def run_concurrently(tasks: Sequence[Callable[[], T]], branches: Sequence[str] = ()) -> list[T]:
    """Run independent tasks at the same time and return their results in order.

    DSPy's settings and the run follow into the threads. With concurrency switched off, or for a single task, the
    same is done one by one. The first failure, in order, is raised after all have ended.

    Args:
        tasks: functions without arguments.
        branches: names under which the tasks' steps are filed; as they are, if absent.
    """
    if not tasks:
        return []
    run = current_recorder()
    children = [run.fork(branches[i] if branches else "") for i in range(len(tasks))]
    collected = dspy.settings.trace  # where an optimizer finds its demonstrations
    parts: list[list[Any]] = [[] for _ in tasks]

    def work(index: int) -> T:
        own = {} if collected is None else {"trace": parts[index]}
        with recording(children[index]), dspy.context(**own):
            return tasks[index]()

    if run.concurrent and len(tasks) > 1:
        # The first task needs no thread of its own: this one would only wait.
        futures = [_pool().submit(contextvars.copy_context().run, work, i) for i in range(1, len(tasks))]
        try:
            results = [work(0)]
        finally:
            problems = [future.exception() for future in futures]
        for problem in problems:
            if problem is not None:
                raise problem
        results += [future.result() for future in futures]
    else:
        results = [work(i) for i in range(len(tasks))]
    run.join(children)
    if collected is not None:
        collected += [call for part in parts for call in part]
        del collected[: max(0, len(collected) - dspy.settings.max_trace_size)]
    return results
