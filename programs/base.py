"""The base class of all programs: hyperparameters, presets, and how `forward` asks, retrieves and records."""

from __future__ import annotations

import copy
import functools
import math
import time
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, ClassVar

import dspy
from typing_extensions import Self

from knowgap.errors import EmptyQuestion, UnknownName, UsageError
from knowgap.lms.metering import keeps_history, track_usage, without_history
from knowgap.programs.forward import LAST, Forward
from knowgap.programs.hyperparameters import Hyperparameter, OptionalInteger, fit_to_reranker
from knowgap.programs.passages import distinct
from knowgap.programs.prediction import CitedPrediction, cite_by_lm
from knowgap.programs.replies.text import is_blank, text_of, without_surrogates
from knowgap.programs.shortening import writer_of
from knowgap.programs.streaming import Streamable
from knowgap.programs.trace.recorder import (
    LISTENER,
    Budget,
    CallsSpent,
    TraceRecorder,
    current_recorder,
    recording,
)
from knowgap.programs.trace.steps import Asked, Stopped
from knowgap.retrieval.index.engines import as_retriever
from knowgap.retrieval.passage import Passage, Retriever, RetrieverLike
from knowgap.signatures import STYLES

_LAST_PASSAGES = 10
"""The most passages that the last call of `max_calls` is shown."""
PAPERS = frozenset({"migres", "adaptive_note", "ra_isf", "rq_rag", "blend_filter"})
"""The programs that are the algorithms of their papers, with no settings but theirs."""


@functools.cache
def _declared(cls: type[Program]) -> Mapping[str, Hyperparameter[Any]]:
    declared: dict[str, Hyperparameter[Any]] = {}
    for base in reversed(cls.__mro__):
        declared |= {name: value for name, value in vars(base).items() if isinstance(value, Hyperparameter)}
    return declared


class Program(Streamable, Forward):
    """A question-answering method.

    A subclass declares its hyperparameters as class attributes, makes its predictors in `__init__`, and writes its
    algorithm in `forward(question)`, which ends with `conclude`. Calling the program adds the trace to the prediction.
    A program keeps no state between questions and may be called from many threads.

    Attributes:
        name: the program's name in the registry; by default the name of the class.
        calls: how many calls a question takes with the default settings, such as `1 to 4`; empty if it is not known.
        presets: the hyperparameters that the paper uses for each family of tasks, by preset name.
        needs_retriever: whether the program searches an index.
        part_names: names of the attributes that copies of a program share: the index and models.
        sub_models: arguments that take a model trained for part of the method, each with the attribute that holds it.

    Args:
        retriever: the index to search, its folder, or the URL of its server; None for programs that retrieve nothing.
        concurrent: run independent calls within a question at the same time; the answer is the same either way.
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
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    needs_retriever: ClassVar[bool] = True
    part_names: ClassVar[tuple[str, ...]] = ("retriever",)
    sub_models: ClassVar[Mapping[str, str]] = {}

    max_calls = OptionalInteger(
        None,
        "calls of the language model for a question at most, after which it is answered from what there is",
        low=1,
        high=1000,
        search=(1, 20),
        tune=False,
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in vars(cls):
            cls.name = cls.__name__

    def __init__(self, retriever: RetrieverLike | None = None, *, concurrent: bool = True, **hyperparameters: Any):
        super().__init__()
        self.retriever: Retriever | None = as_retriever(retriever)
        self.concurrent = concurrent
        self.apply_thresholds = True  # False leaves the decisions' thresholds as they are set on the predictors
        defaults = {name: declared.default for name, declared in self.hyperparameters().items()}
        self.configure(**defaults | hyperparameters)

    @classmethod
    def hyperparameters(cls) -> dict[str, Hyperparameter[Any]]:
        """The declared hyperparameters by name, those of base classes first."""
        return dict(_declared(cls))

    @classmethod
    def preset(cls, name: str) -> dict[str, Any]:
        """The hyperparameters of a preset.

        Raises:
            UnknownName: the program has no such preset.
        """
        if name not in cls.presets:
            raise UnknownName.among(f"preset of {cls.name}", name, cls.presets)
        return dict(cls.presets[name])

    @classmethod
    def from_preset(cls, name: str, retriever: RetrieverLike | None = None, **kwargs: Any) -> Self:
        """Make a program with a preset's hyperparameters; `kwargs` are arguments of the class and override them.

        If the reranker is not BGE-reranker-base, a δ on the scale of that model is left out, with a warning.

        Raises:
            UnknownName: the program has no such preset.
        """
        preset = {key: value for key, value in cls.preset(name).items() if key not in kwargs}
        preset, left_out = fit_to_reranker(preset, kwargs.get("reranker"))
        if left_out:
            warnings.warn(f"preset {name}: {left_out}", stacklevel=2)
        return cls(retriever, **preset, **kwargs)

    def values(self) -> dict[str, Any]:
        """The current values of all hyperparameters."""
        return {name: self.value(name) for name in self.hyperparameters()}

    def value(self, name: str) -> Any:
        """The current value of a hyperparameter."""
        return getattr(self, name)

    def set_value(self, name: str, value: Any) -> None:
        """Set a hyperparameter; `configure` checks names and sets several."""
        setattr(self, name, value)

    @property
    def kind(self) -> type[Program]:
        """The factory of such programs: the class, or the `ModuleFactory` of a `ModuleProgram`."""
        return type(self)

    def configure(self, **values: Any) -> Self:
        """Set hyperparameters and return the program; if one value is refused, none is set.

        Raises:
            UnknownName: a name is not declared.
            ValueOutOfBounds: a value is outside its bounds.
        """
        declared = self.hyperparameters()
        for name in values:
            if name not in declared:
                raise self.unknown(name)
        checked = {name: declared[name].check(value) for name, value in values.items()}
        for name, value in checked.items():
            self.set_value(name, value)
        return self

    def unknown(self, name: str) -> UnknownName:
        """The error for a hyperparameter that the program lacks."""
        own = f"; {self.name} is its paper's algorithm, what goes beyond is the program knowgap"
        declared = self.hyperparameters()
        return UnknownName.among(f"hyperparameter of {self.name}", name, declared, own if self.name in PAPERS else "")

    @property
    def wording(self) -> str:
        """The instruction for the style, which signatures take as their input `style`."""
        return STYLES[self.style]

    def parts(self) -> dict[str, Any]:
        """The index and the models that copies of the program share, by name; None for one that was not given."""
        return {name: getattr(self, name) for name in self.part_names}

    def __call__(self, *args: Any, **kwargs: Any) -> dspy.Prediction:
        """Answer a question: `program(question="…")`.

        Raises:
            EmptyQuestion: the question has no visible character.
            UsageError: the question is not a text, or not valid Unicode.
            TypeError: there is an argument besides the question.
        """
        if unknown := [*kwargs.keys() - {"question"}, *map(repr, args[1:])]:
            raise TypeError(f"{self.name} takes only a question, not {', '.join(unknown)}: call program(question=…)")
        question = kwargs.get("question", args[0] if args else "")
        if not isinstance(question, str):
            raise UsageError(f'the question is {question!r:.80}, not a text: call program(question="…")')
        if is_blank(question):
            raise EmptyQuestion("the question is empty: ask something")
        if without_surrogates(question) != question:
            raise UsageError(
                f"the question {question!r} is not valid Unicode: check the encoding that it was read with"
            )
        limit, concurrent = self.max_calls, self.concurrent and self.max_calls is None
        budget = Budget(math.inf if limit is None else limit)
        recorder = TraceRecorder(time.perf_counter(), concurrent, budget=budget, listener=LISTENER.get())
        with (
            recording(recorder),
            nullcontext() if keeps_history() else without_history(),
            track_usage(recorder.tracker),
        ):
            recorder.add(Asked(question=question))
            try:
                output: Any = super().__call__(question=question)
            except CallsSpent:
                output = self._answer_with_the_last_call(question)
            wrapped = isinstance(output, tuple)  # by an optimizer
            given = output[0] if wrapped else output
            judge = self.parts().get("entailment")
            cited = cite_by_lm(question, given, recorder.steps, self.style, judge)
        prediction = CitedPrediction.of(given, recorder.finish(self.name, question), self.style, judge, cited)
        answered: Any = (prediction, *output[1:]) if wrapped else prediction
        return answered

    def _answer_with_the_last_call(self, question: str) -> dspy.Prediction:
        recorder = current_recorder()
        self.record(Stopped(reason="calls"))
        read = [recorder.passages[name] for name in recorder.shown if name in recorder.passages]
        return self.last_answer(question, distinct([*read, *recorder.passages.values()])[:_LAST_PASSAGES])

    def last_answer(self, question: str, passages: list[Passage]) -> dspy.Prediction:
        """The answer when the other calls of `max_calls` are spent, from what was read, then from what was found."""
        given = {"question": question, "passages": passages, "style": self.wording, "lm": writer_of(self)}
        return self.conclude(text_of(self.ask(LAST, last=True, **given)), passages)

    # What DSPy calls to save, load and copy a program.

    def load_state(self, state: dict[str, Any], **kwargs: Any) -> None:
        """Load demonstrations and hyperparameters; a hyperparameter that the state lacks gets its default."""
        defaults = {name: {"value": declared.default} for name, declared in self.hyperparameters().items()}
        super().load_state({**defaults, **state}, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        for key, value in self.__getstate__().items():
            vars(twin)[key] = value if key in self.part_names else copy.deepcopy(value, memo)
        twin.history, twin.callbacks = [], list(self.callbacks)
        return twin

    def __repr__(self) -> Any:
        declared = self.hyperparameters()
        changed = [f"{name}={value!r}" for name, value in self.values().items() if value != declared[name].default]
        return f"{type(self).__name__}({', '.join(changed)})"
