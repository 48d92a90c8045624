"""Answer questions of a service: at most so many at a time, each within a deadline, and none that nobody waits for."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import dspy
from dspy.utils.exceptions import LMError

from knowgap.errors import EmptyQuestion, KnowgapError, LanguageModelUnreachable, MissingDependency, UsageError
from knowgap.lms.providers import as_language_model_error, unreadable_replies
from knowgap.programs.reading.cited_prediction import cite_answer
from knowgap.programs.streaming import Recorded
from knowgap.programs.trace.trace import Cost, Trace
from knowgap.programs.trace.view import describe_step
from knowgap.retrieval.passage import Passage

try:
    import prometheus_client as prometheus
except ImportError as error:
    raise MissingDependency(f"{error.name} is not installed; `pip install 'knowgap[serve]'`") from error

__all__ = ["Answer", "Answering", "Problem", "StepTold"]

_LOG = logging.getLogger(__name__)
_MAX_QUESTION = 32_768  # characters
_READY = Passage("ready", "Ready", "It is ready.")


class Problem(Exception):
    """Why a question gets no answer.

    Args:
        status: the status code of HTTP: 400 for a question that cannot be asked, 429 if too many are being answered,
            499 if nobody waits for the answer, 502 if the language model fails, 504 if there is no answer in time, and
            500 otherwise.
        message: one line.
    """

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status, self.message = status, message


class StepTold(dict[str, Any]):
    """A step of the trace, JSON-ready, with `text`: the step in words, a line for each detail."""


class Answer(dict[str, Any]):
    """An answer, JSON-ready: `question`, `answer`, `passages`, `citations` if they are wanted, and `cost`."""


class Answering:
    """A program that answers the questions of a service.

    Args:
        program: the program, with its index.
        lm: the language model that it asks.
        max_questions: how many questions are answered at the same time; further ones get a `Problem` with status 429.
        deadline: seconds within which a question is answered.

    Attributes:
        name: the program's name, which stands for a model's.
        metrics: Prometheus' registry of what is counted.
    """

    def __init__(self, program: Any, lm: dspy.BaseLM, *, max_questions: int = 32, deadline: float = 300.0) -> None:
        self.name = f"knowgap/{program.name}"
        self.metrics = prometheus.CollectorRegistry()
        self._program, self._lm = program, lm
        self._free, self._deadline = max_questions, deadline
        self._questions = prometheus.Counter(
            "knowgap_questions", "Questions, by what became of them.", ["outcome"], registry=self.metrics
        )
        self._in_progress = prometheus.Gauge(
            "knowgap_questions_in_progress", "Questions that are being answered.", registry=self.metrics
        )
        self._seconds = prometheus.Histogram(
            "knowgap_answer_seconds",
            "Seconds from a question to its answer.",
            buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320),
            registry=self.metrics,
        )
        self._costs = {
            field: prometheus.Counter(f"knowgap_{field}", f"{what}, of answered questions.", registry=self.metrics)
            for field, what in _COUNTED.items()
        }

    def warm_up(self) -> None:
        """Load what the first question would wait for: the index, its encoder, the reranker, the entailment model."""
        parts = self._program.parts()
        if (retriever := parts.get("retriever")) is not None:
            retriever.search(["ready"], 1)
            cite_answer("Is it ready?", "yes", [_READY], entailment=parts.get("entailment"))
        if (reranker := parts.get("reranker")) is not None:
            reranker.score([("ready", _READY.text)])

    async def answer(
        self, question: str, gone: Callable[[], Awaitable[object]], *, steps: bool = False, citations: bool = True
    ) -> AsyncGenerator[StepTold | Answer, None]:
        """Answer a question; the last item is the `Answer`.

        Closing the generator ends the work: no call to a model or an index begins any more.

        Args:
            question: the question.
            gone: returns when nobody waits for the answer any more.
            steps: yield the steps as well, as they happen; that takes a millisecond or two of computing for each.
            citations: find the passages that support the answer; without them, `citations` is missing. The entailment
                model reads all passages for that, which may take longer than all other computing for a question.

        Raises:
            Problem: there is no answer.
        """
        if len(question) > _MAX_QUESTION:
            raise self._problem(400, f"the question has more than {_MAX_QUESTION} characters")
        if not self._free:
            raise self._problem(429, "as many questions are being answered as the server is set to; ask again later")
        self._free -= 1
        self._in_progress.inc()
        started, outcome = time.perf_counter(), "cancelled"
        try:
            async with contextlib.aclosing(self._items(question, gone, steps, citations)) as items:
                async for item in items:
                    if isinstance(item, Answer):
                        outcome = "answered"
                        self._seconds.observe(time.perf_counter() - started)
                        for field, counter in self._costs.items():
                            counter.inc(item["cost"][field])
                    yield item
        except Problem as problem:
            outcome = _OUTCOMES.get(problem.status, "failed")
            raise
        finally:
            self._free += 1
            self._in_progress.dec()
            self._questions.labels(outcome).inc()

    def _problem(self, status: int, message: str) -> Problem:
        self._questions.labels("refused").inc()
        return Problem(status, message)

    async def _predict(self, question: str) -> AsyncGenerator[Any, None]:
        """The prediction alone, as the last item of `Program.arecorded`."""
        with dspy.context(lm=self._lm):
            prediction = await self._program.acall(question=question)
        yield prediction

    async def _items(
        self, question: str, gone: Callable[[], Awaitable[object]], steps: bool, citations: bool
    ) -> AsyncGenerator[StepTold | Answer, None]:
        told = Trace(program=self._program.name, question=question)
        with dspy.context(lm=self._lm):
            stream = self._program.arecorded(question=question) if steps else self._predict(question)
        left = asyncio.ensure_future(gone())
        end = time.monotonic() + self._deadline
        try:
            while True:
                item = asyncio.ensure_future(anext(stream))
                try:
                    remaining = max(0.0, end - time.monotonic())
                    await asyncio.wait({item, left}, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)
                    if not item.done():
                        raise (
                            Problem(499, "nobody waits for the answer")
                            if left.done()
                            else Problem(504, f"no answer within {self._deadline:g} s")
                        )
                    recorded = item.result()
                finally:
                    if item.cancel():
                        with contextlib.suppress(asyncio.CancelledError):
                            await item
                if not isinstance(recorded, Recorded):
                    answer = functools.partial(self._answer, question, recorded, citations)
                    yield await asyncio.to_thread(answer) if citations else answer()
                    return
                told.passages.update((passage.id, passage.to_dict()) for passage in recorded.passages)
                step = recorded.step
                yield StepTold(step.model_dump(mode="json"), text=describe_step(told, step))
        except (Exception, KeyboardInterrupt) as error:
            raise self._reason(error) from error
        finally:
            left.cancel()
            await stream.aclose()

    def _answer(self, question: str, prediction: Any, citations: bool) -> Answer:
        """The answer; the entailment model checks its citations here."""
        cost: Cost = prediction.trace.cost
        if cost.all_unreadable:
            raise unreadable_replies(self._lm, cost.lm_calls, cost.cut)
        answer = Answer(
            question=question,
            answer=prediction.answer,
            passages=[passage.to_dict() for passage in prediction.passages],
            cost=cost.model_dump(mode="json"),
        )
        if citations:
            answer["citations"] = [citation.to_dict() for citation in prediction.citations]
        return answer

    def _reason(self, error: BaseException) -> Problem:
        if isinstance(error, Problem):
            return error
        if isinstance(error, LMError):
            error = as_language_model_error(error, self._lm)
        if isinstance(error, (EmptyQuestion, UsageError)):
            return Problem(400, str(error))
        if isinstance(error, LanguageModelUnreachable):
            return Problem(502, str(error))
        if isinstance(error, KnowgapError):
            return Problem(500, str(error))
        if isinstance(error, KeyboardInterrupt):  # all calls were stopped: the server ends
            return Problem(503, "the server ends")
        _LOG.error("a question failed", exc_info=error)
        return Problem(500, "the question failed; the server's log says why")


_COUNTED = {
    "lm_calls": "Calls of the language model",
    "cached_calls": "Calls of the language model that a cache answered",
    "prompt_tokens": "Tokens of prompts",
    "completion_tokens": "Tokens of replies",
    "retrievals": "Queries to the index",
    "passages": "Passages that the language model read",
}
_OUTCOMES = {400: "refused", 499: "cancelled", 503: "cancelled", 504: "late"}
