"""Answer a question in a thread of its own: awaited, or step by step."""

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
from knowgap.programs.trace.recorder import listening
from knowgap.programs.trace.steps import Step
from knowgap.retrieval.passage import Passage


class Recorded(NamedTuple):
    """A step, with the passages that it brought into the trace."""

    step: Step
    passages: Sequence[Passage]


@functools.cache
def _acall_pool() -> ThreadPoolExecutor:
    """Threads for `acall`; asyncio's own pool has too few for calls that mostly wait."""
    return ThreadPoolExecutor(max_workers=256, thread_name_prefix="knowgap-acall")


class _Run:
    """A question that is answered in a thread; the thread waits after each step until the next one is asked for.

    With concurrent branches, each waits at its own next step. DSPy's settings are those of where the object is made.

    Args:
        call: answers the question.
    """

    def __init__(self, call: Callable[[], Any]):
        self._call, self._context = call, contextvars.copy_context()
        self._cancelled = threading.Event()
        self._one_at_a_time, self._taken = threading.Lock(), threading.Semaphore(0)

    def start(self, put: Callable[[Recorded | Future[Any]], object]) -> None:
        """Begin; `put` gets each step, and at the end a future that holds the prediction or the error."""

        def record(step: Step, passages: Sequence[Passage]) -> None:
            with self._one_at_a_time:
                check_cancelled()
                put(Recorded(step, passages))
                self._taken.acquire()
            check_cancelled()

        def answer() -> None:
            outcome: Future[Any] = Future()
            try:
                with listening(record):
                    outcome.set_result(run_cancellable(self._cancelled, self._call))
            except BaseException as error:
                outcome.set_exception(error)
            with contextlib.suppress(RuntimeError):  # the event loop that listened is closed
                put(outcome)

        threading.Thread(target=self._context.run, args=(answer,), name="knowgap-stream", daemon=True).start()

    def go_on(self) -> None:
        """Let the branch go on whose step was put last."""
        self._taken.release()

    def cancel(self) -> None:
        """No call to a model or an index begins from now on."""
        self._cancelled.set()
        self._taken.release()


def _iterate(run: _Run) -> Generator[Step | dspy.Prediction, None, None]:
    items: queue.SimpleQueue[Recorded | Future[Any]] = queue.SimpleQueue()
    run.start(items.put)
    try:
        while isinstance(item := items.get(), Recorded):
            yield item.step
            run.go_on()
        yield item.result()
    finally:
        run.cancel()


async def _iterate_async(run: _Run) -> AsyncGenerator[Recorded | dspy.Prediction, None]:
    items: asyncio.Queue[Recorded | Future[Any]] = asyncio.Queue()
    run.start(functools.partial(asyncio.get_running_loop().call_soon_threadsafe, items.put_nowait))
    try:
        while isinstance(item := await items.get(), Recorded):
            yield item
            run.go_on()
        yield item.result()
    finally:
        run.cancel()


async def _steps_of(
    items: AsyncGenerator[Recorded | dspy.Prediction, None],
) -> AsyncGenerator[Step | dspy.Prediction, None]:
    async with contextlib.aclosing(items):
        async for item in items:
            yield item.step if isinstance(item, Recorded) else item


class Streamable:
    """What is called with a question can be awaited with it, or iterated over."""

    async def acall(self, *args: Any, **kwargs: Any) -> dspy.Prediction:
        """Answer a question without blocking the event loop; once cancelled, it calls no model and no index."""
        cancelled = threading.Event()
        ask = functools.partial(run_cancellable, cancelled, self, *args, **kwargs)
        call = functools.partial(contextvars.copy_context().run, ask)
        try:
            return await asyncio.get_running_loop().run_in_executor(_acall_pool(), call)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def stream(self, *args: Any, **kwargs: Any) -> Generator[Step | dspy.Prediction, None, None]:
        """Answer a question step by step: `for step in program.stream(question="…")`.

        Like any generator, the program works while the loop waits for the next item, and stands still while the loop
        uses one; concurrent branches come to their own next step. Where the loop is left, or the generator is closed,
        no call to a model or an index begins any more; those under way end by themselves. DSPy's settings are those at
        the time of this call.

        Yields:
            The steps of the trace as they happen, each with its `branch`, and at last what calling the program
            returns: the prediction. Steps of concurrent branches alternate; `prediction.trace.steps` has the same steps
            in the order of the algorithm. The seconds of the trace include the caller's.

        Raises:
            Exception: what calling the program raises, from the iteration.
        """
        call: Any = self
        return _iterate(_Run(functools.partial(call, *args, **kwargs)))

    def astream(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Step | dspy.Prediction, None]:
        """Answer a question step by step without blocking the event loop; see `stream`.

        Cancelling the task that iterates stops the work as well: `async for step in program.astream(question="…")`.
        """
        return _steps_of(self.arecorded(*args, **kwargs))

    def arecorded(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Recorded | dspy.Prediction, None]:
        """As `astream`, and each step comes with the passages that it brought into the trace: `Recorded`."""
        call: Any = self
        return _iterate_async(_Run(functools.partial(call, *args, **kwargs)))
