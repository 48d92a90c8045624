"""Answering the questions of a service, with a limit on their number, a deadline, and cancellation on disconnect."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from functools import partial
from itertools import accumulate
from typing import Any

import dspy
from dspy.utils.exceptions import LMError

from knowgap.errors import IndexMissing
from knowgap.lms.cancelling import await_cancellable
from knowgap.lms.providers import EXTRACTIVE, as_language_model_error, unreadable_replies
from knowgap.programs.conversation import FollowUp, greet
from knowgap.programs.prediction import CitedAnswer
from knowgap.programs.trace.steps import Step
from knowgap.programs.trace.trace import Cost, Trace, rounds_of
from knowgap.retrieval.passage import Passage
from knowgap.service.requests import Gone, Problem, patiently
from knowgap.signatures.types import SubAnswer
from knowgap.signatures.values import is_unknown

MAX_QUESTION = 32_768
"""The most characters of a question, and of the questions before it and their answers together."""
MAX_SAID = 20  # the most earlier questions and answers


class Answering:
    """A program that answers the questions of a service.

    The arguments are those of `Server`. `name` is the program's name, which OpenAI's protocol uses as that of a model.
    """

    def __init__(self, program: Any, lm: dspy.BaseLM, *, max_questions: int = 32, deadline: float = 300.0) -> None:
        self.name = f"knowgap/{program.name}"
        self._program, self._lm = program, lm
        self._free, self._deadline = max_questions, deadline

    def warm_up(self) -> None:
        """Load what the first question would wait for: the index, its encoder, the reranker."""
        parts = self._program.parts()
        if (retriever := parts.get("retriever")) is not None:
            with contextlib.suppress(IndexMissing):  # the folder is still being read
                retriever.search(["ready"], 1)
        if (reranker := parts.get("reranker")) is not None:
            reranker.score([("ready", "It is ready.")])

    async def answer(
        self,
        question: str,
        gone: Gone,
        *,
        said: Sequence[SubAnswer] = (),
        tell: Callable[[dict[str, Any]], object] | None = None,
    ) -> dict[str, Any]:
        """Answer a question; once this is cancelled, no further call to a model or an index begins.

        A greeting or thanks gets a friendly line: nothing is searched or asked.

        Args:
            question: the question.
            gone: returns when the client no longer waits for the answer.
            said: earlier questions and answers, the oldest first; with any, a call of the language model completes the
                question first. The oldest are left out of more than `MAX_SAID`, or than `MAX_QUESTION` characters.
            tell: called with each step as it happens: JSON-ready, with `text`, a line for each detail.

        Returns:
            JSON-ready: `question`, `answer`, `supported`, `missing`, `guess`, `cited_answer`, `sources`, `citations`,
            `nearest`, `passages` and `cost`; with `tell`, `story` and `answered`; for a follow-up question,
            `understood_as`.

        Raises:
            Problem: there is no answer.
        """
        lengths = accumulate(len(turn.question) + len(turn.answer) for turn in reversed(said))
        read = min(MAX_SAID, sum(length <= MAX_QUESTION for length in lengths))
        return await self._in_turn(len(question), gone, partial(self._answer, question, said[len(said) - read :], tell))

    async def pass_on(self, prompt: str, gone: Gone, tell: object = None) -> dict[str, Any]:
        """Pass a prompt on to the language model, without a search or steps; its reply is the `cited_answer`.

        Raises:
            Problem: there is no reply, or no language model (400): the embedded reader only answers questions.
        """
        if self._lm.model == EXTRACTIVE:
            raise Problem(400, "this is a prompt for a language model, and none answers here")

        async def reply() -> dict[str, Any]:
            with dspy.track_usage() as usage:
                [text] = await await_cancellable(self._lm, prompt)
            tokens = usage.get_total_tokens().get(self._lm.model, {})
            counted = {name: tokens.get(name) or 0 for name in ("prompt_tokens", "completion_tokens")}
            text = text if isinstance(text, str) else text["text"]
            cost = Cost(lm_calls=1, **counted)
            return {"cited_answer": text, "nearest": [], "sources": [], "cost": cost.model_dump(mode="json")}

        return await self._in_turn(len(prompt), gone, reply)

    async def _in_turn(self, length: int, gone: Gone, work: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        """Do the work for a question of so many characters, if there is a place for it."""
        if length > MAX_QUESTION:
            raise Problem(400, f"the question has more than {MAX_QUESTION} characters")
        if not self._free:
            raise Problem(429, "the server is answering as many questions as it is set to; ask again later")
        self._free -= 1
        try:
            return await patiently(work(), gone, self._deadline)
        except LMError as error:
            raise Problem.of(as_language_model_error(error, self._lm)) from error
        except Exception as error:  # as it is, an error of a program's own would end the client's connection
            raise Problem.of(error) from error
        finally:
            self._free += 1

    async def _answer(
        self,
        question: str,
        said: Sequence[SubAnswer],
        tell: Callable[[dict[str, Any]], object] | None,
    ) -> dict[str, Any]:
        program, completed = self._program, None
        prediction = await asyncio.to_thread(greet, program, question)
        if prediction is None:
            said = [turn for turn in said if greet(program, turn.question) is None]
            with dspy.context(lm=self._lm):
                completed = await FollowUp(said).acall(question=question) if said else None
                asked = completed.answer if completed else question
                prediction = await (program.acall(question=asked) if tell is None else self._told(asked, tell))
        return await asyncio.to_thread(self._record, question, prediction, completed, tell is not None)

    async def _told(self, question: str, tell: Callable[[dict[str, Any]], object]) -> Any:
        """The prediction for a question, whose steps are told as they happen."""
        trace, loop = Trace(program=self._program.name, question=question), asyncio.get_running_loop()

        def listener(step: Step, passages: Sequence[Passage]) -> None:
            trace.passages.update((passage.id, passage) for passage in passages)
            loop.call_soon_threadsafe(tell, {**step.model_dump(mode="json"), "text": trace.describe(step)})

        return await self._program.acall(question=question, listener=listener)

    def _record(self, question: str, prediction: Any, completed: Any, story: bool) -> dict[str, Any]:
        """The answer, JSON-ready; raises `LanguageModelError` if no reply of the model could be read."""
        cost: Cost = prediction.trace.cost
        if cost.all_unreadable:
            raise unreadable_replies(self._lm, cost.lm_calls, cost.cut)
        cited = CitedAnswer.of(prediction, self._program.retriever)
        answer = {"question": question, **cited.to_dict(prediction)}
        if completed is not None:
            answer["understood_as"], cost = completed.answer, completed.trace.cost + cost
        answer["cost"] = cost.model_dump(mode="json")
        if story:
            answer["story"] = [asdict(told) for told in rounds_of(prediction.trace)]
            answer["answered"] = prediction.supported is not False and not is_unknown(prediction.answer)
        return answer
