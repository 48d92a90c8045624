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
from typing import Any, NamedTuple, cast

import dspy

from knowgap.lms.cancelling import run_cancellable
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


class Streamable:
    """A mixin: what is called with a question can also be awaited, or iterated over step by step."""

    async def acall(self, *args: Any, **kwargs: Any) -> dspy.Prediction:
        """Answer a question without blocking the event loop; once cancelled, it calls no model and no index."""
        cancelled, context = threading.Event(), contextvars.copy_context()
        ask = functools.partial(run_cancellable, cancelled, self, *args, **kwargs)
        try:
            return await asyncio.get_running_loop().run_in_executor(_pool(), context.run, ask)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def stream(self, *args: Any, **kwargs: Any) -> Generator[Step | dspy.Prediction, None, None]:
        """Answer a question step by step: `for step in program.stream(question="…")`.

        Once the loop is left, or the generator is closed, no further call to a model or an index begins; calls under
        way finish. DSPy's settings are those at the time of this call.

        Yields:
            The steps of the trace as they happen, each with its `branch`, and finally the prediction that calling
            the program returns. Steps of concurrent branches alternate; `prediction.trace.steps` has the same steps
            in the order of the algorithm.

        Raises:
            Exception: whatever calling the program raises, during the iteration.
        """
        return _iterate(*self._prepared(*args, **kwargs))

    def arecorded(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Recorded | dspy.Prediction, None]:
        """Like `astream`, but yield each step as `Recorded`, with the passages that it added to the trace."""
        return _iterate_async(*self._prepared(*args, **kwargs))

    async def astream(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Step | dspy.Prediction, None]:
        """Answer a question step by step without blocking the event loop; see `stream`.

        Cancelling the task that iterates stops the work as well: `async for step in program.astream(question="…")`.
        """
        async with contextlib.aclosing(self.arecorded(*args, **kwargs)) as items:
            async for item in items:
                yield item.step if isinstance(item, Recorded) else item

    def _prepared(self, *args: Any, **kwargs: Any) -> tuple[threading.Thread, queue.SimpleQueue[Any], threading.Event]:
        """The thread that answers, its queue of steps and at last a future of the prediction, and what cancels it."""
        items: queue.SimpleQueue[Recorded | Future[Any]] = queue.SimpleQueue()
        cancelled, call = threading.Event(), functools.partial(cast("Any", self), *args, **kwargs)

        def answer() -> None:
            LISTENER.set(lambda step, passages: items.put(Recorded(step, passages)))
            outcome: Future[Any] = Future()
            try:
                outcome.set_result(run_cancellable(cancelled, call))
            except BaseException as error:
                outcome.set_exception(error)
            items.put(outcome)

        work = functools.partial(contextvars.copy_context().run, answer)
        return threading.Thread(target=work, name="knowgap-stream", daemon=True), items, cancelled


def _iterate(
    thread: threading.Thread, items: queue.SimpleQueue[Any], cancelled: threading.Event
) -> Generator[Any, None, None]:
    thread.start()
    try:
        while isinstance(item := items.get(), Recorded):
            yield item.step
        yield item.result()
    finally:
        cancelled.set()


async def _iterate_async(
    thread: threading.Thread, items: queue.SimpleQueue[Any], cancelled: threading.Event
) -> AsyncGenerator[Any, None]:
    thread.start()
    loop, take = asyncio.get_running_loop(), cast("Callable[[], Any]", items.get)
    try:
        while isinstance(item := await loop.run_in_executor(_pool(), take), Recorded):
            yield item
        yield cast("Any", item).result()
    finally:
        cancelled.set()
