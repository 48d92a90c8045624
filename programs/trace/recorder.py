"""Records the trace of a question while it is answered, and runs independent steps concurrently.

A `TraceRecorder` belongs to one question. Each concurrent branch writes to a fork of it. The forks are joined in the
order in which the branches were started, so neither trace nor answer depends on which branch ends first.
"""

from __future__ import annotations

import contextvars
import functools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import dspy

from knowgap.lms.cancelling import run_cancellable
from knowgap.lms.metering import Usage, UsageTracker
from knowgap.programs.trace.steps import Prompted, Step
from knowgap.programs.trace.trace import Cost, Trace
from knowgap.retrieval.passage import Passage

T = TypeVar("T")

Listener = Callable[[Step, Sequence[Passage]], None]
"""Called with each step and the passages that came with it right after both were recorded, in the same thread."""

_SUMMED = ("unreadable", "retrievals", "knowledge_tokens")

_RECORDER: contextvars.ContextVar[TraceRecorder | None] = contextvars.ContextVar("knowgap_recorder", default=None)
_LISTENER: contextvars.ContextVar[Listener | None] = contextvars.ContextVar("knowgap_listener", default=None)


class TraceRecorder:
    """Collects steps, passages and cost of one question, or of one branch of it.

    Args:
        started: value of `time.perf_counter` when the question began.
        concurrent: whether branches run at the same time.
        iteration: number of the iteration that the next steps belong to.
        branch: path of the branch that the next steps belong to.
        listener: gets each step as it happens.
        tracker: counts the calls of the whole question; one of its own if None.
    """

    def __init__(
        self,
        started: float,
        concurrent: bool,
        iteration: int = 0,
        branch: str = "",
        listener: Listener | None = None,
        tracker: UsageTracker | None = None,
    ):
        self.tracker = tracker or UsageTracker()
        self.started, self.concurrent, self.listener = started, concurrent, listener
        self.iteration, self.branch = iteration, branch
        self.steps: list[Step] = []
        self.passages: dict[str, Passage] = {}
        self.shown: dict[str, int] = {}  # as in `Trace.shown`
        self.cost = Cost()
        self.model_texts: set[str] = set()  # texts of passages that the model wrote from memory

    def place(self) -> dict[str, Any]:
        """Where the next step belongs."""
        return {"iteration": self.iteration, "branch": self.branch}

    def add(self, step: Step, *passages: Passage) -> None:
        """Append a step, with the passages it names."""
        step.iteration = step.iteration or self.iteration
        step.branch = step.branch or self.branch
        step.at = round(time.perf_counter() - self.started, 6)
        self.steps.append(step)
        if isinstance(step, Prompted):
            self.model_texts.add(step.text)
        self._keep(passages)
        if self.listener is not None:
            self.listener(step, passages)

    def count_read(self, passages: Sequence[Passage]) -> None:
        """Count passages, as they stand in a prompt, as read by the language model."""
        self._keep(passages)
        self._show({passage.id: len(passage.text) for passage in passages})

    def count_request(self, usage: Usage, seconds: float) -> None:
        """Add one request to the language model, which took so many seconds, to the longest chain of calls."""
        self.cost.critical_calls += usage.asked
        self.cost.critical_seconds += seconds

    def _keep(self, passages: Sequence[Passage]) -> None:
        for passage in passages:
            self.passages.setdefault(passage.id, passage)

    def _show(self, characters: Mapping[str, int]) -> None:
        for passage_id, count in characters.items():
            self.shown[passage_id] = max(count, self.shown.get(passage_id, 0))

    def fork(self, branch: str = "") -> TraceRecorder:
        """Make the recorder of a branch that may run at the same time as others."""
        path = "/".join(part for part in (self.branch, branch) if part)
        child = TraceRecorder(self.started, self.concurrent, self.iteration, path, self.listener, self.tracker)
        child.model_texts = set(self.model_texts)
        child.cost.critical_calls = self.cost.critical_calls
        child.cost.critical_seconds = self.cost.critical_seconds
        return child

    def join(self, children: Sequence[TraceRecorder]) -> None:
        """Take over what the branches recorded, in their order; the longest branch counts for the critical path."""
        for child in children:
            self.steps += child.steps
            self._keep(list(child.passages.values()))
            self._show(child.shown)
            self.model_texts |= child.model_texts
            for field in _SUMMED:
                setattr(self.cost, field, getattr(self.cost, field) + getattr(child.cost, field))
            self.cost.iterations = max(self.cost.iterations, child.cost.iterations)
        for field in ("critical_calls", "critical_seconds"):
            before = getattr(self.cost, field)
            added = [getattr(child.cost, field) - before for child in children]
            setattr(self.cost, field, before + (max(added) if self.concurrent else sum(added)))

    def finish(self, program: str, question: str) -> Trace:
        """Make the trace of the whole question."""
        usage = self.tracker.usage
        self.cost.lm_calls, self.cost.cached_calls = usage.asked, usage.cached_calls
        self.cost.uncounted_calls, self.cost.cut = usage.uncounted_calls, usage.cut
        self.cost.prompt_tokens = usage.prompt_tokens + usage.cached_prompt_tokens
        self.cost.completion_tokens = usage.completion_tokens + usage.cached_completion_tokens
        self.cost.passages = len(self.shown)
        self.cost.seconds = time.perf_counter() - self.started
        passages = {passage_id: passage.to_dict() for passage_id, passage in self.passages.items()}
        return Trace.model_construct(
            program=program,
            question=question,
            steps=self.steps,
            passages=passages,
            shown=self.shown,
            cost=self.cost,
        )


def current_recorder() -> TraceRecorder:
    """The recorder of the question that is being answered in this thread.

    Raises:
        RuntimeError: no question is being answered.
    """
    recorder = _RECORDER.get()
    if recorder is None:
        raise RuntimeError("no question is being answered here: call the program, not its forward")
    return recorder


@contextmanager
def recording(recorder: TraceRecorder) -> Iterator[TraceRecorder]:
    """Make `recorder` the current one."""
    token = _RECORDER.set(recorder)
    try:
        yield recorder
    finally:
        _RECORDER.reset(token)


def current_listener() -> Listener | None:
    """Who listens to the next question; None if nobody does, or if it is asked while another is being answered."""
    return _LISTENER.get() if _RECORDER.get() is None else None


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Let `listener` get the steps of the questions that are asked in this context."""
    listens, records = _LISTENER.set(listener), _RECORDER.set(None)
    try:
        yield
    finally:
        _LISTENER.reset(listens)
        _RECORDER.reset(records)


def run_concurrently(tasks: Sequence[Callable[[], T]], branches: Sequence[str] = ()) -> list[T]:
    """Run independent tasks at the same time and return their results in order.

    DSPy's settings and the recorder follow into the threads. With concurrency switched off, the tasks run one after the
    other in this thread. If tasks fail, the error of the first of them is raised, after all have ended.

    Args:
        tasks: functions without arguments.
        branches: names of the branches that the tasks' steps belong to; the present branch if empty.
    """
    if not tasks:
        return []
    recorder = current_recorder()
    forks = [recorder.fork(branches[i] if branches else "") for i in range(len(tasks))]
    dspy_trace = dspy.settings.trace  # from which an optimizer makes demonstrations
    parts: list[list[Any]] = [[] for _ in tasks]

    def work(index: int) -> T:
        settings = {} if dspy_trace is None else {"trace": parts[index]}
        with recording(forks[index]), dspy.context(**settings):
            return tasks[index]()

    steps = [functools.partial(work, i) for i in range(len(tasks))]
    results = run_in_threads(steps) if recorder.concurrent else [step() for step in steps]
    recorder.join(forks)
    if dspy_trace is not None:
        dspy_trace += [call for part in parts for call in part]
        del dspy_trace[: max(0, len(dspy_trace) - dspy.settings.max_trace_size)]
    return results


HELPERS = 512
"""How many threads may help those that answer the questions of this process, at any moment."""

_free = threading.BoundedSemaphore(HELPERS)


def _renew() -> None:
    global _free
    _free = threading.BoundedSemaphore(HELPERS)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)  # a forked process has none of the threads


def run_in_threads(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Run tasks in this thread and in helping ones, each in a copy of the present context; return their results.

    Helpers take tasks in order until none is left, and end. This thread does the same, so a task that no thread is free
    for runs here. A thread thus waits only for tasks that are running, and tasks may start tasks of their own to any
    depth without a deadlock.

    Raises:
        BaseException: the error of the first task that failed, after all have ended. If this thread is interrupted,
            no further task begins, and those that run are not waited for, and call no model and no index.
    """
    waiting = deque(enumerate([(contextvars.copy_context(), task) for task in tasks]))
    results: dict[int, T] = {}
    errors: dict[int, BaseException] = {}
    interrupted = threading.Event()

    def work() -> None:
        while waiting:
            try:
                position, (context, task) = waiting.popleft()
            except IndexError:  # another thread took the last one
                return
            try:
                results[position] = context.run(run_cancellable, interrupted, task)
            except BaseException as error:
                errors[position] = error
                if not isinstance(error, Exception):  # an interrupt, or the end of the process
                    waiting.clear()
                    raise

    def help_out() -> None:
        with suppress(BaseException):  # it is among the errors
            work()
        free.release()

    free, helpers = _free, list[threading.Thread]()
    try:
        while len(helpers) < len(tasks) - 1 and free.acquire(blocking=False):
            helper = threading.Thread(target=help_out, name="knowgap", daemon=True)
            try:
                helper.start()
            except RuntimeError:  # the system gives no more threads
                free.release()
                break
            helpers.append(helper)
        work()
        for helper in helpers:
            helper.join()
    except BaseException:
        interrupted.set()
        waiting.clear()
        raise
    for _, error in sorted(errors.items()):
        raise error
    return [results[position] for position in range(len(tasks))]
