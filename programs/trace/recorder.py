"""Records the trace of a question while it is answered, and runs independent steps concurrently.

A `TraceRecorder` belongs to one question. Each concurrent branch writes to a fork of it. The forks are joined in the
order in which the branches were started, so neither trace nor answer depends on which branch ends first.
"""

from __future__ import annotations

import contextvars
import functools
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from knowgap.lms.cancelling import run_cancellable
from knowgap.lms.metering import Usage, UsageTracker
from knowgap.programs.trace.steps import Retrieved, Step
from knowgap.programs.trace.trace import Cost, Trace
from knowgap.retrieval.passage import Passage

T = TypeVar("T")

Listener = Callable[[Step, Sequence[Passage]], object]
"""Called with each step and the passages that came with it right after both were recorded, in the same thread."""

RECORDER: contextvars.ContextVar[TraceRecorder] = contextvars.ContextVar("knowgap_recorder")
"""The recorder of the question that is being answered in this thread."""

THREADS = 1024
"""So many threads of this process, over all questions, run tasks at once; further tasks run one after the other."""


class CallsSpent(Exception):
    """The calls that `max_calls` allows are spent but for the last one, which the final answer gets."""


@dataclass(eq=False)
class TraceRecorder:
    """Collects steps, passages and cost of one question, or of one branch of it.

    Attributes:
        started: value of `time.perf_counter` when the question began.
        question: the question that the program was asked.
        max_calls: the most requests to the language model for the whole question.
        iteration: number of the iteration that the next steps belong to; `branch` is the path of their branch.
        tracker: counts the calls of the whole question.
        shown: as in `Trace.shown`.
        cost: what is neither counted by the tracker nor to be seen from the steps.
        replies: the replies to requests of the whole question, by request.
    """

    started: float
    concurrent: bool
    question: str = ""
    max_calls: float = math.inf
    listener: Listener | None = None
    iteration: int = 0
    branch: str = ""
    tracker: UsageTracker = field(default_factory=UsageTracker)
    steps: list[Step] = field(default_factory=list)
    passages: dict[str, Passage] = field(default_factory=dict)
    shown: dict[str, int] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    replies: dict[Any, Future[Any]] = field(default_factory=dict)

    @property
    def calls_left(self) -> float:
        """The requests that may still be made for the question, the last one, which is reserved, included."""
        return self.max_calls - len(self.replies)

    def add(self, step: Step, *passages: Passage) -> None:
        """Append a step, with the passages it names."""
        step.iteration, step.branch = self.iteration, self.branch
        self.steps.append(step)
        self._take({passage.id: passage for passage in passages}, {})
        if self.listener is not None:
            self.listener(step, passages)

    def count_read(self, passages: Sequence[Passage]) -> None:
        """Count passages, with the length of the text in the prompt, as read by the language model."""
        self._take({p.id: p for p in passages}, {passage.id: len(passage.text) for passage in passages})

    def count_calls(self, usage: Usage, *, read: bool = True) -> None:
        """Count the calls of a request, which wait for one another, and whether its reply could be read."""
        self.cost.critical_calls += usage.asked
        self.cost.cut += usage.cut
        self.cost.unreadable += 0 if read else usage.asked

    def _take(self, passages: Mapping[str, Passage], shown: Mapping[str, int]) -> None:
        self.passages |= {name: passage for name, passage in passages.items() if name not in self.passages}
        self.shown |= {name: max(length, self.shown.get(name, 0)) for name, length in shown.items()}

    def request_once(self, key: Any, request: Callable[[], T]) -> T:
        """Make a request, unless the same one was made for this question; return its reply in either case."""
        mine = Future[T]()
        made = self.replies.setdefault(key, mine)
        if made is mine:
            try:
                mine.set_result(request())
            except BaseException as error:
                del self.replies[key]
                mine.set_exception(error)
        return made.result()

    def fork(self, branch: str = "") -> TraceRecorder:
        """Make the recorder of a branch that may run concurrently with others."""
        path = "/".join(part for part in (self.branch, branch) if part)
        return replace(self, branch=path, steps=[], passages={}, shown={}, cost=Cost())

    def join(self, children: Sequence[TraceRecorder]) -> None:
        """Take over what the branches recorded, in their order; the longest branch determines the critical path."""
        calls, before = [child.cost.critical_calls for child in children], self.cost.critical_calls
        for child in children:
            self.steps += child.steps
            self._take(child.passages, child.shown)
            self.cost += child.cost
        self.cost.critical_calls = before + (max(calls) if self.concurrent else sum(calls))

    def finish(self, program: str) -> Trace:
        """Make the trace of the whole question."""
        cost = self.cost.of_calls(self.tracker.usage)
        cost.retrievals = sum(len(step.queries) for step in self.steps if isinstance(step, Retrieved))
        cost.iterations = max((step.iteration for step in self.steps), default=0)
        cost.passages, cost.seconds = len(self.shown), time.perf_counter() - self.started
        facts: dict[str, Any] = {"steps": self.steps, "passages": self.passages, "shown": self.shown, "cost": cost}
        return Trace.model_construct(program=program, question=self.question, **facts)


@contextmanager
def recording(recorder: TraceRecorder) -> Iterator[None]:
    """Make `recorder` the current one."""
    records = RECORDER.set(recorder)
    try:
        yield
    finally:
        RECORDER.reset(records)


def run_concurrently(tasks: Sequence[Callable[[], T]], branches: Sequence[str] = ()) -> list[T]:
    """Run independent tasks in threads of their own and return their results in order.

    DSPy's settings and the recorder follow into the threads. Tasks may start tasks of their own to any depth. Where too
    many threads run already, with concurrency switched off, and under `max_calls`, so that the same calls are made each
    time, the tasks run one after the other in this thread.

    Args:
        tasks: functions without arguments.
        branches: names of the branches that the tasks' steps belong to; the current branch if empty.

    Raises:
        BaseException: the error of the first task that failed, after all have ended. If this thread is interrupted,
            the tasks call no model and no index any more.
    """
    if not tasks:
        return []
    recorder, interrupted = RECORDER.get(), threading.Event()
    forks = [recorder.fork(branch) for branch in branches or [""] * len(tasks)]

    def work(task: Callable[[], T], fork: TraceRecorder) -> T:
        RECORDER.set(fork)
        return run_cancellable(interrupted, task)

    pairs = zip(tasks, forks, strict=True)
    steps: list[Any] = [functools.partial(contextvars.copy_context().run, work, *pair) for pair in pairs]
    try:
        if len(tasks) < 2 or not recorder.concurrent or threading.active_count() + len(tasks) > THREADS:
            return [step() for step in steps]
        with ThreadPoolExecutor(len(tasks), thread_name_prefix="knowgap") as pool:
            futures = [pool.submit(step) for step in steps]
            try:
                wait(futures)
            except BaseException:
                interrupted.set()
                raise
        return [future.result() for future in futures]
    finally:
        recorder.join(forks)
