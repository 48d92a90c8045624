"""Answering the questions of a service, with a limit on their number, a deadline, and cancellation on disconnect."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import dspy
from dspy.utils.exceptions import LMError

from knowgap.errors import IndexMissing
from knowgap.lms.providers import EXTRACTIVE, as_language_model_error, unreadable_replies
from knowgap.programs.follow_up import FollowUp
from knowgap.programs.greetings import greet
from knowgap.programs.prediction import CitedPrediction, cite_answer
from knowgap.programs.sources import AnswerSource, CitedAnswer
from knowgap.programs.statements import LMEntailment
from knowgap.programs.streaming import Recorded
from knowgap.programs.trace.steps import Refined
from knowgap.programs.trace.story import Story
from knowgap.programs.trace.trace import Cost, Trace
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.searching import Part, only_passages, passages_of
from knowgap.service.requests import Patience, Problem
from knowgap.service.searching import how_far
from knowgap.signatures.types import SubAnswer

MAX_QUESTION = 32_768
"""The most characters of a question, and of the questions before it and their answers together."""
MAX_SAID = 20  # the most earlier questions and answers
_READY = Passage("ready", "Ready", "It is ready.")


class StepTold(dict[str, Any]):
    """A step of the trace, JSON-ready, with `text`: the step in words, a line for each detail."""


class Answer(dict[str, Any]):
    """An answer, JSON-ready: `question`, `answer`, `supported`, `missing`, `guess`, `nearest`, `passages`, `cost`.

    On request, it also has `cited_answer`, `sources` and `citations`, and `story`; for a follow-up question,
    `understood_as`.
    """


class Answering:
    """A program that answers the questions of a service.

    `link` returns the address of a source's file. The other arguments are those of `Server`. `name` is the program's
    name, which OpenAI's protocol uses as that of a model. Questions wait until `warm_up` is done.
    """

    def __init__(
        self,
        program: Any,
        lm: dspy.BaseLM,
        *,
        max_questions: int = 32,
        deadline: float = 300.0,
        link: Callable[[AnswerSource], str] | None = None,
    ) -> None:
        self.name = f"knowgap/{program.name}"
        self._program, self._lm, self._link = program, lm, link
        self._free, self._deadline = max_questions, deadline
        self._warm = threading.Event()

    def warm_up(self) -> None:
        """Load what the first question would wait for: the index, its encoder, the reranker, the entailment model."""
        try:
            parts = self._program.parts()
            if (retriever := parts.get("retriever")) is not None:
                with contextlib.suppress(IndexMissing):  # the folder is still being read
                    retriever.search(["ready"], 1)
                model = parts.get("entailment")
                model = None if isinstance(model, LMEntailment) else model
                cite_answer("Is it ready?", "yes", [_READY], entailment=model)
            if (reranker := parts.get("reranker")) is not None:
                reranker.score([("ready", _READY.text)])
        finally:
            self._warm.set()

    async def answer(
        self,
        question: str,
        gone: Callable[[], Awaitable[object]],
        *,
        said: Sequence[SubAnswer] = (),
        steps: bool = False,
        citations: bool = True,
        sampling: Mapping[str, Any] | None = None,
        files: Sequence[str] = (),
    ) -> AsyncGenerator[StepTold | Answer, None]:
        """Answer a question; the last item is the `Answer`.

        Closing the generator ends the work: no further call to a model or an index begins. A greeting or thanks gets a
        friendly line: nothing is searched or asked.

        Args:
            question: the question.
            gone: returns when the client no longer waits for the answer.
            said: earlier questions and answers; with any, a call of the language model completes the question first.
            steps: yield the steps as well, as they happen; the answer has their story.
            citations: find the passages that support the answer, and number them as its sources, which may take longer
                than the rest of the computation.
            sampling: options of the language model for this question, such as `temperature`.
            files: which files of the index are searched, as for `only_documents`.

        Raises:
            Problem: there is no answer.
        """
        lm = self._lm.copy(**sampling) if sampling else self._lm
        length = max(len(question), sum(len(turn.question) + len(turn.answer) for turn in said))
        async with self._waiting(length, gone) as patience:
            greeting, said = await patience.wait_for(asyncio.to_thread(self._hear, question, said))
            completed = None
            if said and greeting is None:
                completed = await patience.wait_for(self._call(FollowUp(said), question, lm))
                step = Refined(action="understood as", query=completed.answer)
                yield StepTold(step.model_dump(mode="json"), text=[f"understood as: {completed.answer}"])
            asked = completed.answer if completed else question
            part = await patience.wait_for(asyncio.to_thread(passages_of, self._program.retriever, files))
            told = Trace(program=self._program.name, question=asked)
            with dspy.context(lm=lm), only_passages(part):
                stream = self._program.arecorded(question=asked) if steps else self._predict(asked, lm, part)
                stream = stream if greeting is None else _only(greeting)
            async with contextlib.aclosing(stream):
                while isinstance(recorded := await patience.wait_for(anext(stream)), Recorded):
                    told.passages.update((passage.id, passage) for passage in recorded.passages)
                    step = recorded.step
                    yield StepTold(step.model_dump(mode="json"), text=told.describe(step))
            answer = await asyncio.to_thread(self._answer, question, recorded, completed, steps, citations)
        yield answer

    async def pass_on(
        self, prompt: str, gone: Callable[[], Awaitable[object]], sampling: Mapping[str, Any]
    ) -> AsyncGenerator[Answer, None]:
        """Pass a prompt on to the language model, without a search; the only item is its reply, as an `Answer`.

        Raises:
            Problem: there is no reply, or no language model (400): the embedded reader only answers questions.
        """
        if self._lm.model == EXTRACTIVE:
            raise Problem(400, "this is a prompt for a language model, and none answers here")
        async with self._waiting(len(prompt), gone) as patience:
            with dspy.track_usage() as usage:
                [text] = await patience.wait_for(asyncio.to_thread(self._lm, prompt, **sampling))
            tokens = usage.get_total_tokens().get(self._lm.model, {})
            counted = {name: tokens.get(name) or 0 for name in ("prompt_tokens", "completion_tokens")}
        text = text if isinstance(text, str) else text["text"]
        yield Answer(answer=text, nearest=[], cost=Cost(lm_calls=1, **counted).model_dump(mode="json"))

    @contextlib.asynccontextmanager
    async def _waiting(self, length: int, gone: Callable[[], Awaitable[object]]) -> AsyncGenerator[Patience, None]:
        """Take a place for the block, once the models are loaded; whatever ends the block is raised as a `Problem`."""
        if length > MAX_QUESTION:
            raise Problem(400, f"the question, or those before it, have more than {MAX_QUESTION} characters")
        if not self._free:
            raise Problem(429, "the server is answering as many questions as it is set to; ask again later")
        self._free -= 1
        try:
            async with Patience(gone, self._deadline) as patience:
                if not self._warm.is_set():
                    await patience.wait_for(asyncio.to_thread(self._warm.wait))
                yield patience
        except (Exception, KeyboardInterrupt) as error:
            named = as_language_model_error(error, self._lm) if isinstance(error, LMError) else error
            raise Problem.of(named) from error
        finally:
            self._free += 1

    async def _call(self, program: Any, question: str, lm: dspy.BaseLM) -> Any:
        with dspy.context(lm=lm):
            return await program.acall(question=question)

    def _hear(self, question: str, said: Sequence[SubAnswer]) -> tuple[CitedPrediction | None, list[SubAnswer]]:
        """The reply to a greeting, if the question is one, and what was said before without greetings."""
        return greet(self._program, question), [turn for turn in said if greet(self._program, turn.question) is None]

    async def _predict(self, question: str, lm: dspy.BaseLM, part: Part | None) -> AsyncGenerator[Any, None]:
        """The prediction alone, as the last item of `Program.arecorded`."""
        with only_passages(part):
            prediction = await self._call(self._program, question, lm)
        yield prediction

    def _answer(self, question: str, prediction: Any, completed: Any, story: bool, citations: bool) -> Answer:
        """Make the answer, whose citations the entailment model checks."""
        cost: Cost = prediction.trace.cost
        if cost.all_unreadable:
            raise unreadable_replies(self._lm, cost.lm_calls, cost.cut)
        answer = Answer(question=question, answer=prediction.answer)
        answer.update({name: prediction[name] for name in ("supported", "missing", "guess")}, nearest=[])
        answer["passages"] = [passage.to_dict() for passage in prediction.passages]
        if completed is not None:
            answer["understood_as"], cost = completed.answer, completed.trace.cost + cost
        answer["cost"] = cost.model_dump(mode="json")
        answer.update(how_far(self._program.retriever))
        if citations or prediction.supported is False:
            cited = CitedAnswer.of(prediction, self._program.retriever)
            answer["nearest"] = [self._source(source) for source in cited.nearest]
            answer["cited_answer"] = cited.text
            answer["sources"] = [self._source(source) for source in cited.sources]
            answer["citations"] = [citation.to_dict() for citation in cited.citations]
        if story:
            answer["story"] = Story.of(prediction.trace).model_dump(mode="json")
        return answer

    def _source(self, source: AnswerSource) -> dict[str, Any]:
        link = self._link(source) if self._link is not None else ""
        return {**source.to_dict(), **({"link": link} if link else {})}


async def _only(prediction: CitedPrediction) -> AsyncGenerator[Any, None]:
    yield prediction


async def last_of(items: AsyncGenerator[StepTold | Answer, None]) -> dict[str, Any]:
    """The last item, which is the answer."""
    answer: dict[str, Any] = {}
    async with contextlib.aclosing(items):
        async for item in items:
            answer = item
    return answer
