"""The base class of all programs: hyperparameters, presets, and what a method uses to ask, search and conclude."""

from __future__ import annotations

import copy
import functools
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import dspy
from typing_extensions import Self

from knowgap.errors import EmptyQuestion, UsageError
from knowgap.lms.cancelling import await_cancellable, check_cancelled
from knowgap.lms.metering import track_usage
from knowgap.programs.hyperparameters import Choice, Configurable, Integer, Threshold
from knowgap.programs.passages import distinct, knowledge_tokens, number_passages
from knowgap.programs.prediction import CitedPrediction, cite_answer, say_unsupported
from knowgap.programs.replies.asking import Reply, ask_until_read, lm_of, predict_of, without_last
from knowgap.programs.replies.text import text_of, without_surrogates
from knowgap.programs.trace import steps
from knowgap.programs.trace.recorder import RECORDER, CallsSpent, Listener, TraceRecorder, recording
from knowgap.retrieval.indexes import as_retriever
from knowgap.retrieval.passage import Hit, Passage, RetrieverLike
from knowgap.signatures import STYLES, AnswerFromPassages
from knowgap.signatures.values import is_unknown

_LAST, _LAST_PASSAGES = dspy.Predict(AnswerFromPassages), 10
"""The predictor of the call that `max_calls` reserves, and the most passages that it is shown."""


class Program(Configurable):
    """A question-answering method.

    A subclass declares its hyperparameters as class attributes, makes its predictors in `__init__`, and writes its
    algorithm in `forward(question)`, which ends with `conclude`. Calling the program adds the trace to the prediction.
    A program keeps no state between questions and may be called from many threads.

    Attributes:
        calls: how many calls a question takes with the default settings, such as `1 to 4`; empty if it is not known.
        needs_retriever: whether the program searches an index.
        adds: the fields that a prediction has besides those of every program, each with its value where there is none.
        part_names: names of the attributes that copies of a program share: the index and models.
        sub_models: arguments that take a model trained for part of the method, each with the attribute that holds it.
        concurrent: whether independent calls within a question run at the same time; the answer is the same either way.

    Args:
        retriever: the index to search, its folder, or the URL of its server; None for programs that retrieve nothing.
        **hyperparameters: values for the declared hyperparameters.

    Raises:
        UnknownName: a hyperparameter is not declared.
        ValueOutOfBounds: a value is outside its bounds.

    >>> import knowgap
    >>> program = knowgap.get_program("rag")(top_k=2)
    >>> isinstance(program, knowgap.Program), program.top_k
    (True, 2)
    """

    calls: ClassVar[str] = ""
    needs_retriever: ClassVar[bool] = True
    adds: ClassVar[Mapping[str, Any]] = {}
    part_names: ClassVar[tuple[str, ...]] = ("retriever",)
    sub_models: ClassVar[Mapping[str, str]] = {}

    style = Choice("short", "how the answer is worded", choices=tuple(STYLES), tune=False)
    max_calls = Integer(
        None, "calls for a question at most; the last one answers from what there is", low=1, high=1000, tune=False
    )

    def __init__(self, retriever: RetrieverLike | None = None, **hyperparameters: Any):
        super().__init__()
        self.retriever = as_retriever(retriever)
        self.concurrent = True
        self.configure(**{name: each.default for name, each in self.hyperparameters().items()} | hyperparameters)

    def parts(self) -> dict[str, Any]:
        """The index and the models that copies of the program share, by name; None for one that was not given."""
        return {name: getattr(self, name) for name in self.part_names}

    def __call__(self, question: str, *, listener: Listener | None = None) -> dspy.Prediction:
        """Answer a question: `program(question="…")`.

        Args:
            question: a text.
            listener: called with each step of the trace, and the passages that it added, as they happen, in the thread
                that takes the step. An error that it raises ends the question.

        Raises:
            EmptyQuestion: the question has no visible character.
            UsageError: the question is not a text of valid Unicode.
        """
        if not isinstance(question, str) or without_surrogates(question) != question:
            raise UsageError(f"the question is {question!r:.80}, not a text of valid Unicode")
        if all(character.isspace() or not character.isprintable() for character in question):
            raise EmptyQuestion("the question is empty: ask something")
        for declared in self.hyperparameters().values():
            if isinstance(declared, Threshold):
                declared.apply(self.holder)
        concurrent, most = self.concurrent and self.max_calls is None, self.max_calls or math.inf
        recorder = TraceRecorder(time.perf_counter(), concurrent, question, most, listener)
        with recording(recorder), track_usage(recorder.tracker):
            recorder.add(steps.Asked(question=question))
            try:
                output: Any = super().__call__(question=question)
            except CallsSpent:
                recorder.add(steps.Stopped(reason="calls"))
                if self.needs_retriever and self.retriever is not None and not recorder.passages:
                    self.retrieve_passages(question, _LAST_PASSAGES)
                read = [recorder.passages[name] for name in recorder.shown]
                output = self.last_answer(question, distinct([*read, *recorder.passages.values()])[:_LAST_PASSAGES])
        wrapped = isinstance(output, tuple)  # by an optimizer, which has `forward` return more
        (output[0] if wrapped else output).trace = recorder.finish(self.name)
        return output

    async def acall(self, question: str, *, listener: Listener | None = None) -> dspy.Prediction:
        """Answer a question without blocking the event loop; once cancelled, it calls no model and no index."""
        return await await_cancellable(self, question, listener=listener)

    # What a method's `forward` uses.

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
        recorder, signature = RECORDER.get(), getattr(predict_of(predictor), "signature", None)
        act = next((name for name, value in vars(self).items() if value is predictor), type(predictor).__name__)
        left_out = steps.Shortened(act=act, passages=[], demonstrations=0)
        while True:
            numbered, listed = number_passages(inputs, signature)
            read = [*inlined, *listed]
            sample = inputs.get("config", {}).keys() & {"temperature", "rollout_id"}
            actions = getattr(dspy.settings.adapter, "actions", None)  # a transcript's, which its prompt depends on
            key = object() if sample else (predictor, lm_of(predictor, inputs), repr((numbered, actions)))
            if key not in recorder.replies and recorder.calls_left < (1 if last else 2):
                raise CallsSpent
            try:
                reply = recorder.request_once(key, functools.partial(_request, predictor, numbered, read))
                break
            except dspy.ContextWindowExceededError:
                if (shorter := without_last(predictor, inputs, left_out)) is None:
                    raise
                inputs = shorter
        recorder.count_read(read)
        if left_out.passages or left_out.demonstrations:
            self.record(left_out)
            warnings.warn(f"{self.name} ({act}): the prompt was too long; the trace says what it lacks", stacklevel=2)
        if reply.prediction is None:
            self.record(steps.Malformed(act=act, problem=reply.problem))
        return reply.prediction

    def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Search for several queries at once; returns at most `k` hits for each, best first."""
        if self.retriever is None:
            raise UsageError(f"the program {self.name} needs a retriever: {type(self).__name__}(retriever)")
        check_cancelled()
        results = self.retriever.search(list(queries), k)
        found = [[hit.passage.id for hit in hits] for hits in results]
        step = steps.Retrieved(queries=list(queries), k=k, hits=found)
        self.record(step, *(hit.passage for hits in results for hit in hits))
        return results

    def retrieve_passages(self, query: str, k: int) -> list[Passage]:
        """Search for one query; returns at most `k` passages, best first."""
        return [hit.passage for hit in self.retrieve([query], k)[0]]

    def record(self, step: steps.Step, *passages: Passage) -> None:
        """Add a step to the trace, and those of its passages that are not in the trace yet."""
        RECORDER.get().add(step, *passages)

    def begin_iteration(self, number: int) -> None:
        """Begin iteration `number`, from 1."""
        RECORDER.get().iteration = number

    def conclude(
        self,
        answer: str,
        passages: Sequence[Passage],
        *,
        supported: bool | None = None,
        missing: str = "",
        **added: Any,
    ) -> dspy.Prediction:
        """Record the final answer and make the prediction that `forward` returns.

        In the style of sentences, an unsupported answer says that the documents do not say this, and what is missing,
        and cites nothing; the answer itself is then the prediction's `guess`.

        Args:
            answer: empty if none could be read.
            passages: those the answer rests on. What the language model wrote itself is not cited.
            supported: whether what was read states the answer; None if the method does not judge that.
            missing: what is still missing for an answer; empty if nothing, or if the method does not say.
            **added: further fields of the prediction, such as those of `adds`; `confidence` is in the trace as well.
        """
        recorder, judge, added = RECORDER.get(), self.parts().get("entailment"), copy.deepcopy({**self.adds}) | added
        guess = answer if supported is False and not is_unknown(answer) else ""
        explanation, confidence = str(added.get("explanation") or ""), added.get("confidence")
        refused = supported is False and self.style == "sentence"
        if refused:
            answer = say_unsupported(recorder.question, guess, missing, explanation)
        sure = confidence if isinstance(confidence, (int, float)) else None
        verdict: dict[str, Any] = {"supported": supported, "missing": missing}
        ids = [passage.id for passage in passages]
        self.record(steps.Answered(answer=answer, confidence=sure, passages=ids, **verdict), *passages)
        own = {step.passage for step in recorder.steps if isinstance(step, steps.Prompted)}
        cited = [passage for passage in passages if passage.id not in own]
        citations = [] if refused else cite_answer(recorder.question, answer, cited, self.style, judge)
        fields = {**verdict, "guess": guess, "trace": None, **added, "citations": citations}
        fields |= {"passages": list(passages), "answer": answer}  # `dspy.majority` compares the last field
        return CitedPrediction(**fields)

    def conclude_with(self, output: Any, passages: Sequence[Passage], **added: Any) -> dspy.Prediction:
        """Conclude with the answer of an output, and add its `reasoning`, which is recorded; both may be empty."""
        reasoning = text_of(output, "reasoning")
        self.record(steps.Reasoned(what="chain of thought", text=reasoning))
        return self.conclude(text_of(output), passages, reasoning=reasoning, **added)

    def last_answer(self, question: str, passages: list[Passage]) -> dspy.Prediction:
        """The answer when the other calls of `max_calls` are spent, from what was read, then from what was found."""
        lm = lm_of([_LAST, *self.predictors()][-1], {})
        reply = self.ask(_LAST, last=True, question=question, passages=passages, style=self.wording, lm=lm)
        return self.conclude(text_of(reply), passages)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        memo |= {id(part): part for part in self.parts().values()}
        twin = memo[id(self)] = type(self).__new__(type(self))
        twin.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        twin.callbacks = list(self.callbacks)
        return twin


def _request(predictor: dspy.Module, inputs: Mapping[str, Any], passages: Sequence[Passage]) -> Reply:
    """Make a request, and count its calls and what they read in the cost of the question."""
    recorder, reply = RECORDER.get(), ask_until_read(predictor, inputs)
    own = {step.passage for step in recorder.steps if isinstance(step, steps.Prompted)}
    words = knowledge_tokens(passage for passage in passages if passage.id not in own)
    recorder.cost.knowledge_tokens += reply.usage.asked * words
    recorder.count_calls(reply.usage, read=reply.prediction is not None)
    return reply
