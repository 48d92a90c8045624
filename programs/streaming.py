"""Answers a question in a separate thread, to be awaited or iterated over step by step."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import dspy

from knowgap.lms.cancelling import check_cancelled, run_cancellable
from knowgap.programs.trace.recorder import LISTENER
from knowgap.programs.trace.steps import Step
from knowgap.retrieval.passage import Passage


class Recorded(NamedTuple):
    """A step, with the passages that it added to the trace."""

    step: Step
    passages: Sequence[Passage]


@functools.cache
def _pool() -> ThreadPoolExecutor:
    """Threads for awaited questions; asyncio's own pool has too few for calls that mostly wait."""
    return ThreadPoolExecutor(max_workers=256, thread_name_prefix="knowgap-acall")


class _Run:
    """A question that is answered in a thread; the thread waits after each step until the next one is requested.

    Each concurrent branch waits at its own next step. DSPy's settings are those in force when the object is made.
    """

    def __init__(self, call: Callable[[], Any]):
        self._call, self._context = call, contextvars.copy_context()
        self._begun, self._cancelled = False, threading.Event()
        self._one_at_a_time, self._taken = threading.Lock(), threading.Semaphore(0)
        self._items: queue.SimpleQueue[Recorded | Future[Any]] = queue.SimpleQueue()

    def take(self) -> Recorded | Future[Any]:
        """The next step, or at the end a future that holds the prediction or the error.

        The branch whose step was taken last continues.
        """
        if self._begun:
            self._taken.release()
        else:
            self._begun, work = True, functools.partial(self._context.run, self._answer)
            threading.Thread(target=work, name="knowgap-stream", daemon=True).start()
        return self._items.get()

    def _answer(self) -> None:
        LISTENER.set(self._record)
        outcome: Future[Any] = Future()
        try:
            outcome.set_result(run_cancellable(self._cancelled, self._call))
        except BaseException as error:
            outcome.set_exception(error)
        self._items.put(outcome)

    def _record(self, step: Step, passages: Sequence[Passage]) -> None:
        with self._one_at_a_time:
            check_cancelled()
            self._items.put(Recorded(step, passages))
            self._taken.acquire()
        check_cancelled()

    def cancel(self) -> None:
        """Cancel the question: no further call to a model or an index begins."""
        self._cancelled.set()
        self._taken.release()


def _iterate(run: _Run) -> Generator[Step | dspy.Prediction, None, None]:
    try:
        while isinstance(item := run.take(), Recorded):
            yield item.step
        yield item.result()
    finally:
        run.cancel()


async def _iterate_async(run: _Run) -> AsyncGenerator[Recorded | dspy.Prediction, None]:
    take = functools.partial(asyncio.get_running_loop().run_in_executor, _pool(), run.take)
    try:
        while isinstance(item := await take(), Recorded):
            yield item
        yield item.result()
    finally:
        run.cancel()


class Streamable:
    """A mixin: what is called with a question can also be awaited, or iterated over step by step."""

    async def acall(self, *args: Any, **kwargs: Any) -> dspy.Prediction:
        """Answer a question without blocking the event loop; once cancelled, it calls no model and no index."""
        cancelled, context = threading.Event(), contextvars.copy_context()
        ask = functools.partial(run_cancellable, cancelled, self, *args, **kwargs)

        def call() -> dspy.Prediction:
            try:
                return context.run(ask)
            except StopIteration as error:  # which no future can hold: the caller would wait for ever
                raise RuntimeError("the program raised StopIteration") from error

        try:
            return await asyncio.get_running_loop().run_in_executor(_pool(), call)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def stream(self, *args: Any, **kwargs: Any) -> Generator[Step | dspy.Prediction, None, None]:
        """Answer a question step by step: `for step in program.stream(question="…")`.

        The program runs while the loop waits for the next item, and pauses while the loop body runs; concurrent
        branches continue to their own next step. Once the loop is left, or the generator is closed, no further call to
        a model or an index begins; calls under way finish. DSPy's settings are those at the time of this call.

        Yields:
            The steps of the trace as they happen, each with its `branch`, and finally the prediction that calling
            the program returns. Steps of concurrent branches alternate; `prediction.trace.steps` has the same steps
            in the order of the algorithm. The seconds of the trace include the caller's.

        Raises:
            Exception: whatever calling the program raises, during the iteration.
        """
        return _iterate(self._prepared(*args, **kwargs))

    def arecorded(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Recorded | dspy.Prediction, None]:
        """Like `astream`, but yield each step as `Recorded`, with the passages that it added to the trace."""
        return _iterate_async(self._prepared(*args, **kwargs))

    async def _astream(self, run: _Run) -> AsyncGenerator[Step | dspy.Prediction, None]:
        async with contextlib.aclosing(_iterate_async(run)) as items:
            async for item in items:
                yield item.step if isinstance(item, Recorded) else item

    def astream(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Step | dspy.Prediction, None]:
        """Answer a question step by step without blocking the event loop; see `stream`.

        Cancelling the task that iterates stops the work as well: `async for step in program.astream(question="…")`.
        """
        return self._astream(self._prepared(*args, **kwargs))

    def _prepared(self, *args: Any, **kwargs: Any) -> _Run:
        call: Any = self
        return _Run(functools.partial(call, *args, **kwargs))
