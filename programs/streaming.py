"""Answers a question in a separate thread, to be awaited or iterated over step by step."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import queue
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import dspy

from knowgap.lms.cancelling import run_cancellable
from knowgap.programs.trace.steps import Step
from knowgap.retrieval.passage import Passage

Listener = Callable[[Step, Sequence[Passage]], object]
"""Called with each step and the passages that came with it right after both were recorded, in the same thread."""


@functools.cache
def _pool() -> ThreadPoolExecutor:
    """Threads for questions; asyncio's own pool has too few for calls that mostly wait."""
    return ThreadPoolExecutor(max_workers=256, thread_name_prefix="knowgap-question")


class Streamable:
    """A mixin: what answers a question can also be awaited, or iterated over step by step."""

    def _respond(self, question: str, listener: Listener | None = None) -> dspy.Prediction:
        raise NotImplementedError

    def _submit(self, cancelled: threading.Event, question: str, listener: Listener | None) -> Future[dspy.Prediction]:
        """Answer a question in a thread with the present context; once cancelled, it calls no model and no index."""
        context = contextvars.copy_context()
        return _pool().submit(context.run, run_cancellable, cancelled, self._respond, question, listener)

    async def acall(self, question: str, *, listener: Listener | None = None) -> dspy.Prediction:
        """Answer a question without blocking the event loop; once cancelled, it calls no model and no index.

        Args:
            question: the question.
            listener: called with each step and the passages that it added to the trace, in the thread that answers.
        """
        cancelled = threading.Event()
        try:
            return await asyncio.wrap_future(self._submit(cancelled, question, listener))
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def stream(self, question: str) -> Generator[Step | dspy.Prediction, None, None]:
        """Answer a question step by step: `for step in program.stream(question="…")`.

        Once the loop is left, or the generator is closed, no further call to a model or an index begins; calls under
        way finish. DSPy's settings are those at the first step.

        Yields:
            The steps of the trace as they happen, each with its `branch`, and finally the prediction that calling
            the program returns. Steps of concurrent branches alternate; `prediction.trace.steps` has the same steps
            in the order of the algorithm.

        Raises:
            Exception: whatever calling the program raises, during the iteration.
        """
        items, cancelled = queue.SimpleQueue[Any](), threading.Event()
        self._submit(cancelled, question, lambda step, _: items.put(step)).add_done_callback(items.put)
        try:
            while isinstance(item := items.get(), Step):
                yield item
            yield item.result()
        finally:
            cancelled.set()
