"""The base of every program: hyperparameters, presets, the trace, and one way to ask and one to retrieve."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import functools
import time
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import dspy
from dspy.utils.exceptions import AdapterParseError
from pydantic import BaseModel

from knowgap.errors import EmptyQuestion, UnknownName, UsageError
from knowgap.programs.adapter import CachingChatAdapter
from knowgap.programs.hyperparameters import Hyperparameter, Setting, Threshold
from knowgap.programs.reading.knowledge_tokens import knowledge_tokens
from knowgap.programs.reading.passage_numbering import numbered
from knowgap.programs.trace.recorder import TraceRecorder, current_recorder, recording
from knowgap.programs.trace.steps import Answered, Asked, Malformed, Retrieved, Step
from knowgap.retrieval.passage import Hit, Passage, Retriever

__all__ = ["Program"]

_ADAPTER = CachingChatAdapter()


@functools.cache
def _acall_pool() -> ThreadPoolExecutor:
    """Threads for `acall`: asyncio's own pool has too few for calls that mostly wait."""
    return ThreadPoolExecutor(max_workers=256, thread_name_prefix="knowgap-acall")


@functools.cache
def _declared(cls: type[Program]) -> Mapping[str, Hyperparameter[Any]]:
    found: dict[str, Hyperparameter[Any]] = {}
    for base in reversed(cls.__mro__):
        found |= {name: value for name, value in vars(base).items() if isinstance(value, Hyperparameter)}
    return found


class _Meter:
    """Collects the language model's history entries of one predictor call.

    DSPy appends an entry to the `history` of every module in `caller_modules`; this stands there as one more, and so
    sees each call, also those answered from the cache, whose usage DSPy clears elsewhere. It always seems empty, so
    that DSPy's limit on the length of a history drops nothing.
    """

    def __init__(self) -> None:
        self.history, self.entries = self, []

    def __len__(self) -> int:
        return 0

    def append(self, entry: dict[str, Any]) -> None:
        """Take one call."""
        self.entries.append(entry)

    def charge(self, run: TraceRecorder, seconds: float) -> None:
        """Put the calls on the run's ledger."""
        for entry in self.entries:
            billed, response = entry.get("usage"), entry.get("response")
            parts = response if isinstance(response, tuple) else (response,)
            usages = [billed] if billed else [getattr(part, "usage", None) for part in parts]
            prompt = sum(_number(usage, "prompt_tokens", "input_tokens") for usage in usages)
            answer = sum(_number(usage, "completion_tokens", "output_tokens") for usage in usages)
            # A call from the cache is billed nothing, but its response still knows what it took.
            cached = getattr(response, "cache_hit", False) or (not billed and prompt + answer > 0)
            run.cost.lm_calls += 1
            run.cost.cached_calls += bool(cached)
            run.cost.prompt_tokens += prompt
            run.cost.completion_tokens += answer
            run.cost.critical_calls += 1
        run.cost.critical_seconds += seconds


def _number(source: Any, *names: str) -> int:
    for name in names:
        value = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
        if value:
            return int(value)
    return 0


def _visible(text: str) -> bool:
    return any(unicodedata.category(character) not in ("Cc", "Cf", "Zs", "Zl", "Zp") for character in text)


def _is_passages(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, Passage) for item in value)


def _encodable(value: Any) -> Any:
    """The value without lone surrogates, which a model can write as an escape and nobody can send or store."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode("utf-8")
        case list():
            return [_encodable(item) for item in value]
        case dict():
            return {_encodable(key): _encodable(item) for key, item in value.items()}
        case BaseModel():
            return value.model_copy(update={name: _encodable(item) for name, item in value})
        case _:
            return value


class Program(dspy.Module):
    """A question-answering method.

    A subclass declares its hyperparameters as class attributes, makes its predictors in `__init__`, and writes its
    algorithm in `forward(question)`, which returns a `dspy.Prediction` with `answer` and `passages`. Calling the
    program adds `trace`. A program keeps nothing between questions and may be called from many threads.

    Args:
        retriever: where passages come from; None for programs that retrieve nothing.
        concurrent: whether independent calls within a question run at the same time; the answer is the same.
        **hyperparameters: values for the declared hyperparameters.

    Raises:
        UnknownName: for a hyperparameter that is not declared.
        ValueOutOfBounds: for a value outside its bounds.
    """

    name: ClassVar[str] = "program"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    needs_retriever: ClassVar[bool] = True
    part_names: ClassVar[tuple[str, ...]] = ("retriever",)

    def __init__(self, retriever: Retriever | None = None, *, concurrent: bool = True, **hyperparameters: Any):
        super().__init__()
        self.retriever, self.concurrent = retriever, concurrent
        declared = self.hyperparameters()
        for name, declaration in declared.items():
            declaration.write(self, hyperparameters.pop(name, declaration.default))
        for name in hyperparameters:
            raise UnknownName.among(f"hyperparameter of {self.name}", name, declared)

    @classmethod
    def hyperparameters(cls) -> dict[str, Hyperparameter[Any]]:
        """The declared hyperparameters by name, a base class' first."""
        return dict(_declared(cls))

    def parts(self) -> dict[str, Any]:
        """The index and the models that copies of the program share, by name; None for one that was not given."""
        return {name: getattr(self, name) for name in self.part_names}

    @classmethod
    def _thresholds(cls) -> Sequence[Threshold]:
        return [declared for declared in _declared(cls).values() if isinstance(declared, Threshold)]

    @classmethod
    def preset(cls, name: str) -> dict[str, Any]:
        """The hyperparameters that the paper uses for a family of tasks.

        Raises:
            UnknownName: when the program has no preset of that name.
        """
        if name not in cls.presets:
            raise UnknownName.among(f"preset of {cls.name}", name, cls.presets)
        return dict(cls.presets[name])

    @classmethod
    def from_preset(cls, name: str, retriever: Retriever | None = None, **kwargs: Any) -> Program:
        """A program with a preset's hyperparameters; `kwargs` are those of the class and take precedence.

        Raises:
            UnknownName: when the program has no preset of that name.
        """
        return cls(retriever, **{**cls.preset(name), **kwargs})

    def values(self) -> dict[str, Any]:
        """The current value of every hyperparameter."""
        return {name: getattr(self, name) for name in self.hyperparameters()}

    def configure(self, **values: Any) -> Program:
        """Set hyperparameters, all or none, and return the program.

        Raises:
            UnknownName: for a name that is not declared.
            ValueOutOfBounds: for a value outside its bounds.
        """
        declared = self.hyperparameters()
        for name in values:
            if name not in declared:
                raise UnknownName.among(f"hyperparameter of {self.name}", name, declared)
        checked = {name: declared[name].check(value) for name, value in values.items()}
        for name, value in checked.items():
            declared[name].write(self, value)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> dspy.Prediction:
        """Answer a question: `program(question="…")`.

        Raises:
            EmptyQuestion: when the question holds no visible character.
            UsageError: when it holds bytes that are no text.
        """
        question = kwargs.get("question", args[0] if args else "")
        if not isinstance(question, str) or not _visible(question):
            raise EmptyQuestion("the question is empty: ask something")
        if _encodable(question) != question:
            raise UsageError(
                f"the question {question!r} is not valid Unicode: check the encoding that it was read with"
            )
        recorder = TraceRecorder(time.perf_counter(), self.concurrent)
        with recording(recorder):
            self.record(Asked(question=question))
            output = super().__call__(question=question)
        prediction = output[0] if isinstance(output, tuple) else output  # an optimizer may wrap what forward returns
        prediction.trace = recorder.finish(self.name, question)
        return output

    async def acall(self, *args: Any, **kwargs: Any) -> dspy.Prediction:
        """The same as the call, without blocking the event loop."""
        call = functools.partial(contextvars.copy_context().run, functools.partial(self, *args, **kwargs))
        return await asyncio.get_running_loop().run_in_executor(_acall_pool(), call)

    # What `forward` is written with.

    def ask(self, predictor: dspy.Module, *, inlined: Sequence[Passage] = (), **inputs: Any) -> dspy.Prediction | None:
        """Ask the language model.

        A list of passages is shown to the model under the numbers 1, 2, 3, … Its passages, and those in `inlined`,
        count as read.

        Args:
            predictor: one of the program's.
            inlined: passages whose text is part of a text input.
            **inputs: inputs of the predictor's signature.

        Returns:
            The outputs, or None if they could not be read even by the fallback of DSPy's adapter; the trace then gets
            a `Malformed` step. Errors of the language model itself are raised.
        """
        recorder, meter, started = current_recorder(), _Meter(), time.perf_counter()
        listed = {name: value for name, value in inputs.items() if _is_passages(value)}
        passages = [*inlined, *(passage for value in listed.values() for passage in value)]
        recorder.count_read(passages)
        inputs |= {name: numbered(value) for name, value in listed.items()}
        limit = 0 if dspy.settings.disable_history else dspy.settings.max_history_size
        callers = [*(dspy.settings.caller_modules or []), meter] if limit else [meter]
        problem = ""
        prediction = None
        for threshold in self._thresholds():
            if vars(self).get(threshold.predictor) is predictor:
                threshold.apply(self, predictor)
        try:
            # The meter reads the history, so one entry at least is kept where the user keeps none.
            settings = {"caller_modules": callers, "disable_history": False, "max_history_size": max(limit, 1)}
            with dspy.context(**settings, adapter=dspy.settings.adapter or _ADAPTER):
                prediction = predictor(**inputs)
        except (AdapterParseError, ValueError, RecursionError, MemoryError) as error:
            # Once the model has replied, a ValueError and the like come from reading its words: thousands of open
            # brackets, numbers without end. Before that, something is wrong with what it was to be asked.
            if not meter.entries:
                raise
            problem = " ".join(str(error).split())[:300] or type(error).__name__
        meter.charge(recorder, time.perf_counter() - started)
        recorder.cost.knowledge_tokens += len(meter.entries) * knowledge_tokens(passages, recorder.model_texts)
        if prediction is None:
            self.record(Malformed(act=self._act(predictor), problem=problem))
        else:
            for name, value in prediction.items():
                if name != "logprobs":  # thousands of numbers, which need no repair
                    prediction[name] = _encodable(value)
        return prediction

    def retrieve(self, queries: Sequence[str], k: int, retriever: Retriever | None = None) -> list[list[Hit]]:
        """Search for several queries at once; returns at most `k` hits for each, best first."""
        source = retriever or self.retriever
        if source is None:
            raise UnknownName(f"the program {self.name} needs a retriever: {type(self).__name__}(retriever)")
        results = source.search(list(queries), k)
        current_recorder().cost.retrievals += len(queries)
        ids = [[hit.passage.id for hit in hits] for hits in results]
        self.record(Retrieved(queries=list(queries), k=k, hits=ids), *(hit.passage for hits in results for hit in hits))
        return results

    def retrieve_passages(self, query: str, k: int) -> list[Passage]:
        """Search for one query; returns at most `k` passages, best first."""
        return [hit.passage for hit in self.retrieve([query], k)[0]]

    def record(self, step: Step, *passages: Passage) -> None:
        """Add a step to the trace, with the passages it names unless they are there."""
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
        confidence: float | None = None,
        explanation: str = "",
        **added: Any,
    ) -> dspy.Prediction:
        """Record the final answer and make the prediction that `forward` returns.

        Args:
            answer: empty if none could be read.
            passages: those the answer rests on.
            confidence: part of the prediction, too, if the method gives one.
            explanation: goes into the trace only.
            **added: what the method adds to the prediction.
        """
        ids = [passage.id for passage in passages]
        step = Answered(answer=answer, confidence=confidence, explanation=explanation, passages=ids)
        self.record(step, *passages)
        if confidence is not None:
            added["confidence"] = confidence
        return dspy.Prediction(answer=answer, passages=list(passages), **added)

    def _act(self, predictor: dspy.Module) -> str:
        """The attribute name of a predictor."""
        return next((name for name, value in vars(self).items() if value is predictor), type(predictor).__name__)

    # What keeps hyperparameters and shared parts whole in DSPy's hands.

    def load_state(self, state: dict[str, Any], **kwargs: Any) -> None:
        """Take demonstrations and hyperparameters from a saved state.

        A hyperparameter that an older state lacks keeps its default, with a warning.
        """
        state = dict(state)
        for name, declaration in self.hyperparameters().items():
            if name not in state:
                warnings.warn(
                    f"the saved {self.name} has no hyperparameter {name}: it keeps its default {declaration.default!r}",
                    stacklevel=2,
                )
                state[name] = {"value": declaration.default}
        super().load_state(state, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Program:
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        held: Any = twin.__dict__
        for key, value in self.__getstate__().items():
            shared = key in self.part_names or isinstance(value, type)
            held[key] = value if shared else copy.deepcopy(value, memo)
        twin.history, twin.callbacks = [], list(self.callbacks)
        return twin

    def __repr__(self) -> Any:
        changed = {
            name: value.value
            for name, value in vars(self).items()
            if isinstance(value, Setting) and value.value != value.declaration.default
        }
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"
