"""What a program's `forward` uses: it asks, searches, records, and concludes."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import dspy

from knowgap.errors import UsageError
from knowgap.lms.cancelling import check_cancelled
from knowgap.programs.hyperparameters import Threshold, declared_in
from knowgap.programs.passages import knowledge_tokens, number_passages
from knowgap.programs.prediction import say_unsupported
from knowgap.programs.replies.asking import ask_until_read, lm_of, predict_of, without_last
from knowgap.programs.replies.text import fits_style, known_text, text_of, warn_once
from knowgap.programs.trace.recorder import current_recorder
from knowgap.programs.trace.steps import Answered, Malformed, Reasoned, Retrieved, Shortened, Step
from knowgap.retrieval.passage import Hit, Passage, Retriever
from knowgap.retrieval.searching import search_all
from knowgap.signatures import STYLES, AnswerFromPassages, ShortenAnswer
from knowgap.signatures.values import is_unknown

LAST = dspy.Predict(AnswerFromPassages)
"""The predictor of the call that `max_calls` reserves."""
SHORTEN = dspy.Predict(ShortenAnswer)
"""The predictor that shortens an answer: small models tend to write whole sentences."""


class Forward(dspy.Module):
    """The part of a program that its algorithm calls; `Program` has the rest."""

    name: ClassVar[str] = "program"
    style: Any
    retriever: Retriever | None

    @property
    def wording(self) -> str:
        """The instruction for the style, which signatures take as their input `style`."""
        return STYLES[self.style]

    def ask(
        self, predictor: dspy.Module, *, inlined: Sequence[Passage] = (), last: bool = False, **inputs: Any
    ) -> dspy.Prediction | None:
        """Ask the language model, or reuse its reply to the same request for this question.

        Passages in a list are numbered 1, 2, 3, … for the model; they and those in `inlined` count as read.

        Args:
            predictor: one of the program's predictors, or a module of any kind, which is called once.
            inlined: passages whose text is part of a text input.
            last: whether this is the last call of the question, which may be the one that `max_calls` reserves.
            **inputs: inputs of the predictor's signature.

        Returns:
            The outputs; None if two replies in a row could not be read, which a `Malformed` step records. Errors of the
            language model are raised. A prompt that exceeds the context window loses its last demonstrations, then its
            last passages.

        Raises:
            CallsSpent: `max_calls` leaves only the last call, with which the base class answers.
        """
        check_cancelled()
        recorder = current_recorder()
        recorder.budget.check(last=last)
        for declared in declared_in(type(self)).values():
            if isinstance(declared, Threshold) and vars(self).get(declared.predictor) is predictor:
                declared.apply(getattr(self, declared.name), predictor)
        shortened = Shortened(act=self._name_of(predictor), passages=[], demonstrations=0)
        signature, lm = getattr(predict_of(predictor), "signature", None), lm_of(predictor, inputs)
        while True:
            numbered, listed = number_passages(inputs, signature)
            sample = inputs.get("config", {}).keys() & {"temperature", "rollout_id"}
            key = object() if sample else (predictor, lm, repr(numbered))
            try:
                request = functools.partial(self._request, predictor, numbered, [*inlined, *listed])
                prediction, problem = recorder.request_once(key, request)
                break
            except dspy.ContextWindowExceededError:
                if (shorter := without_last(predictor, inputs, inlined, shortened)) is None:
                    raise
                inputs, inlined = shorter
        recorder.budget.left -= 1
        recorder.count_read([*inlined, *listed])
        if shortened.passages or shortened.demonstrations:
            self.record(shortened)
            warn_once(
                f"a prompt of {self.name} ({shortened.act}) is longer than the context window of the language model: "
                "the last demonstrations, then passages, are left out; the trace lists them"
            )
        if prediction is None:
            self.record(Malformed(act=shortened.act, problem=problem))
        return prediction

    def _request(
        self, predictor: dspy.Module, inputs: Mapping[str, Any], passages: Sequence[Passage]
    ) -> tuple[dspy.Prediction | None, str]:
        """The outputs, or None and why they could not be read."""
        recorder = current_recorder()
        prediction, problem, usage = ask_until_read(predictor, inputs)
        recorder.cost.critical_calls += usage.asked
        recorder.cost.knowledge_tokens += usage.asked * knowledge_tokens(passages, recorder.model_texts)
        if prediction is None:
            recorder.cost.unreadable += usage.asked
        return prediction, problem

    @property
    def calls_left(self) -> float:
        """The calls that `max_calls` leaves for this question, the last one included; infinite without a limit."""
        return current_recorder().budget.left

    def _name_of(self, predictor: dspy.Module) -> str:
        named = [*vars(self).items(), ("shorten", SHORTEN), ("last answer", LAST)]
        return next((name for name, value in named if value is predictor), type(predictor).__name__)

    def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Search for several queries at once; returns at most `k` hits for each, best first."""
        if self.retriever is None:
            raise UsageError(f"the program {self.name} needs a retriever: {type(self).__name__}(retriever)")
        check_cancelled()
        recorder, results = current_recorder(), search_all(self.retriever, queries, k)
        recorder.cost.retrievals += len(queries)
        ids = [[hit.passage.id for hit in hits] for hits in results]
        step = Retrieved(queries=list(queries), k=k, hits=ids)
        recorder.add(step, *(hit.passage for hits in results for hit in hits))
        return results

    def retrieve_passages(self, query: str, k: int) -> list[Passage]:
        """Search for one query; returns at most `k` passages, best first."""
        return [hit.passage for hit in self.retrieve([query], k)[0]]

    def record(self, step: Step, *passages: Passage) -> None:
        """Add a step to the trace, and those of its passages that are not in the trace yet."""
        current_recorder().add(step, *passages)

    def begin_iteration(self, number: int) -> None:
        """Begin iteration `number`, from 1."""
        recorder = current_recorder()
        recorder.iteration = recorder.cost.iterations = number

    def conclude(
        self,
        answer: str,
        passages: Sequence[Passage],
        *,
        supported: bool | None = None,
        missing: str = "",
        confidence: float | None = None,
        explanation: str = "",
        **added: Any,
    ) -> dspy.Prediction:
        """Record the final answer and make the prediction that `forward` returns.

        In the style of sentences, an unsupported answer says that the documents do not say this, and what is missing;
        the answer itself is then the prediction's `guess`.

        Args:
            answer: empty if none could be read.
            passages: those the answer rests on.
            supported: whether what was read states the answer; None if the method does not judge that.
            missing: what is still missing for an answer; empty if nothing, or if the method does not say.
            confidence: also a field of the prediction, if the method gives one.
            explanation: recorded in the trace only.
            **added: further fields of the prediction.
        """
        ids = [passage.id for passage in passages]
        guess = answer if supported is False and not is_unknown(answer) else ""
        if supported is False and self.style == "sentence":
            answer = say_unsupported(current_recorder().question, guess, missing, explanation)
        verdict: dict[str, Any] = {"supported": supported, "missing": missing}
        step = Answered(answer=answer, confidence=confidence, explanation=explanation, passages=ids, **verdict)
        self.record(step, *passages)
        if confidence is not None:
            added["confidence"] = confidence
        return dspy.Prediction(answer=answer, passages=list(passages), **verdict, guess=guess, **added)

    def last_answer(self, question: str, passages: list[Passage]) -> dspy.Prediction:
        """The answer when the other calls of `max_calls` are spent, from what was read, then from what was found."""
        given = {"question": question, "passages": passages, "style": self.wording, "lm": self._writer()}
        return self.conclude(text_of(self.ask(LAST, last=True, **given)), passages)

    def shortened(self, answer: str) -> str:
        """The answer or, if it is longer than the style allows, what one more call makes of it."""
        question, given = current_recorder().question, {"lm": self._writer(), "style": self.wording}
        fits = not answer or is_unknown(answer) or fits_style(answer, self.style, question)
        if fits or self.calls_left < 1 or given["lm"] is None:
            return answer
        short = known_text(self.ask(SHORTEN, last=True, question=question, text=answer, **given))
        if not (fits_style(short, self.style) or 0 < len(short) < len(answer)):
            return answer
        self.record(Reasoned(what="answer before it was shortened", text=answer))
        return short

    def _writer(self) -> Any:
        """The model that writes the answer: the configured one, unless all predictors have their own; perhaps None."""
        own = [predictor.lm for predictor in self.predictors()]
        return lm_of(SHORTEN, {}) if None in own or not own else own[-1]
