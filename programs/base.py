"""The base class of all programs: hyperparameters, presets, and how a question is answered, saved and copied."""

from __future__ import annotations

import copy
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
from knowgap.programs.forward import Forward
from knowgap.programs.hyperparameters import Choice, Hyperparameter, Integer, declared_in
from knowgap.programs.passages import distinct
from knowgap.programs.prediction import CitedPrediction
from knowgap.programs.replies.text import without_surrogates
from knowgap.programs.statements import LMEntailment
from knowgap.programs.streaming import Streamable
from knowgap.programs.trace.recorder import LISTENER, Budget, CallsSpent, TraceRecorder, recording
from knowgap.programs.trace.steps import Asked, Stopped
from knowgap.retrieval.index.engines import as_retriever
from knowgap.retrieval.passage import RetrieverLike
from knowgap.retrieval.rerankers.reranker import is_bge_base
from knowgap.signatures import STYLES

_LAST_PASSAGES = 10
"""The most passages that the last call of `max_calls` is shown."""


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
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    needs_retriever: ClassVar[bool] = True
    part_names: ClassVar[tuple[str, ...]] = ("retriever",)
    sub_models: ClassVar[Mapping[str, str]] = {}

    style = Choice("short", "how the answer is worded", choices=tuple(STYLES), tune=False)
    max_calls = Integer[int | None](
        None,
        "calls of the language model for a question at most, after which it is answered from what there is",
        low=1,
        high=1000,
        tune=False,
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in vars(cls):
            cls.name = cls.__name__

    def __init__(self, retriever: RetrieverLike | None = None, **hyperparameters: Any):
        super().__init__()
        self.retriever = as_retriever(retriever)
        self.concurrent = True
        defaults = {name: declared.default for name, declared in self.hyperparameters().items()}
        self.configure(**defaults | hyperparameters)

    @classmethod
    def hyperparameters(cls) -> dict[str, Hyperparameter[Any]]:
        """The declared hyperparameters by name, those of base classes first."""
        return dict(declared_in(cls))

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
        values = cls.preset(name) | kwargs
        if "delta" in values and "delta" not in kwargs and not is_bge_base(kwargs.get("reranker")):
            warnings.warn(
                f"preset {name}: its delta is left out, since it is on BGE-reranker-base's scale", stacklevel=2
            )
            del values["delta"]
        return cls(retriever, **values)

    @property
    def holder(self) -> dspy.Module:
        """The module that has the hyperparameters: the program, or what a `ModuleProgram` wraps."""
        return self

    def values(self) -> dict[str, Any]:
        """The current values of all hyperparameters."""
        return {name: getattr(self.holder, name) for name in self.hyperparameters()}

    def configure(self, **values: Any) -> Self:
        """Set hyperparameters and return the program; if one value is refused, none is set.

        Raises:
            UnknownName: a name is not declared.
            ValueOutOfBounds: a value is outside its bounds.
        """
        declared = self.hyperparameters()
        for name in values:
            if name not in declared:
                raise UnknownName.among(f"hyperparameter of {self.name}", name, declared)
        checked = {name: declared[name].check(value) for name, value in values.items()}
        for name, value in checked.items():
            setattr(self.holder, name, value)
        return self

    def parts(self) -> dict[str, Any]:
        """The index and the models that copies of the program share, by name; None for one that was not given."""
        return {name: getattr(self, name) for name in self.part_names}

    def __call__(self, question: str) -> dspy.Prediction:
        """Answer a question: `program(question="…")`.

        Raises:
            EmptyQuestion: the question has no visible character.
            UsageError: the question is not a text of valid Unicode.
        """
        if not isinstance(question, str) or without_surrogates(question) != question:
            raise UsageError(f"the question is {question!r:.80}, not a text of valid Unicode")
        if all(character.isspace() or not character.isprintable() for character in question):
            raise EmptyQuestion("the question is empty: ask something")
        limit, concurrent = self.max_calls, self.concurrent and self.max_calls is None
        budget = Budget(math.inf if limit is None else limit)
        recorder = TraceRecorder(time.perf_counter(), concurrent, question, budget, LISTENER.get())
        history = nullcontext() if keeps_history() else without_history()
        with recording(recorder), history, track_usage(recorder.tracker):
            recorder.add(Asked(question=question))
            try:
                output: Any = super().__call__(question=question)
            except CallsSpent:
                recorder.add(Stopped(reason="calls"))
                read = [recorder.passages[name] for name in recorder.shown]
                output = self.last_answer(question, distinct([*read, *recorder.passages.values()])[:_LAST_PASSAGES])
            wrapped = isinstance(output, tuple)  # by an optimizer
            judge, given = self.parts().get("entailment"), output[0] if wrapped else output
            prediction = CitedPrediction.of(given, question, recorder.steps, self.style, judge)
            if isinstance(judge, LMEntailment):  # whose call counts
                prediction.cite_now()
        prediction.trace = recorder.finish(self.name)
        answered: Any = (prediction, *output[1:]) if wrapped else prediction
        return answered

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
