"""Any `dspy.Module` as a program: one input is the question, one output is the answer."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import dspy
from dspy.utils.exceptions import AdapterParseError
from typing_extensions import Self

from knowgap.errors import UsageError, shorten
from knowgap.lms.metering import Usage, UsageTracker, copy_of, track_usage
from knowgap.plugins import reference_of
from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Hyperparameter
from knowgap.programs.passages import distinct, knowledge_tokens
from knowgap.programs.replies.adapter import adapter_in_use
from knowgap.programs.replies.asking import default_sampling
from knowgap.programs.replies.text import without_surrogates
from knowgap.programs.trace.recorder import RECORDER
from knowgap.programs.trace.steps import Malformed, Retrieved
from knowgap.retrieval.passage import Hit, NeverCopied, Passage, RetrieverLike

_BESIDE = ("reasoning", "trajectory", "passages", "context", "rationale")
"""Outputs that are never guessed to be the answer."""

ModuleLike = dspy.Module | type[dspy.Module]


class ModuleRetriever(NeverCopied):
    """The index of a program as a module uses it: through `search(queries, k)`, or as the `rm` of DSPy's settings.

    Searches are steps of the trace, and what they find counts as read once. While a program runs, its current index is
    searched, which may be a part of the given one, or cached.
    """

    def __init__(self, retriever: Any):
        self.retriever = retriever

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The `k` best passages for each query."""
        present = dspy.settings.rm
        retriever = present.retriever if isinstance(present, ModuleRetriever) else self.retriever
        found = retriever.search(list(queries), k)
        if (recorder := RECORDER.get(None)) is not None:
            step = Retrieved(queries=list(queries), k=k, hits=[[hit.passage.id for hit in hits] for hits in found])
            passages = distinct(hit.passage for hits in found for hit in hits)
            recorder.add(step, *passages)
            recorder.cost.knowledge_tokens += knowledge_tokens(p for p in passages if p.id not in recorder.shown)
            recorder.count_read(passages)
        return found

    def __call__(self, query: str, k: int = 3, **_: Any) -> list[Any]:
        """The passages as `dspy.Retrieve` expects them: `long_text` is `title | text`."""
        hits = self.search([query], k)[0]
        titled = [(hit, f"{hit.passage.title} | " if hit.passage.title else "") for hit in hits]
        return [SimpleNamespace(long_text=f"{t}{h.passage.text}", pid=h.passage.id, score=h.score) for h, t in titled]


class ModuleProgram(Program):
    """A program that wraps a `dspy.Module`: one input takes the question, one output is the answer.

    The input is the only one without a default, or `question`; the output is `answer`, or the only text or number.
    `wrap` makes a subclass for each module. Calls are counted wherever DSPy's callbacks see them. Searches are recorded
    if they use the retriever that the module is given, or `dspy.Retrieve`, which searches the program's index; others
    are not counted. Hyperparameters are those that the module's class declares (`top_k = Integer(3, "…", low=1,
    high=10)`).

    Attributes:
        source: the class or the object that is wrapped; `code` is the class.
        reference: `module:Name` of the class or the object.

    Args:
        retriever: as for `Program`.
        module: the module itself; default: a new instance of the class, or a copy of the object.
        **hyperparameters: values for the declared hyperparameters; default: what the module is set to.

    Raises:
        UsageError: the module takes more than a question.
        UnknownName: the module declares no such hyperparameter.
    """

    source: ClassVar[ModuleLike]
    reference: ClassVar[str] = ""

    def __init__(
        self, retriever: RetrieverLike | None = None, *, module: dspy.Module | None = None, **hyperparameters: Any
    ):
        source: Any = self.source  # a class may take an index; an object has what it takes
        takes = inspect.signature(source.__init__).parameters.get("retriever") if isinstance(source, type) else None
        needs = takes is not None and takes.default is takes.empty
        if module is None and isinstance(source, type):
            wanted = needs or (takes is not None and retriever is not None)
            module = source(**({"retriever": ModuleRetriever(retriever)} if wanted else {}))
        self.module: dspy.Module = source.deepcopy() if module is None else module
        kinds = {type(part) for _, part in self.module.named_sub_modules()}
        self.needs_retriever = needs or dspy.Retrieve in kinds  # pyright: ignore
        self.may_search = bool(kinds - {dspy.Predict, dspy.ChainOfThought})
        self.question_input = _input_of(self.module)
        super().__init__(retriever, **{**self.values(), **hyperparameters})

    @property
    def holder(self) -> dspy.Module:
        """The module."""
        return self.module

    def named_parameters(self) -> list[tuple[str, Any]]:
        """The module's predictors and hyperparameters, under its own names for them."""
        return [(n, p) for n, p in self.module.named_parameters() if isinstance(p, (dspy.Predict, Hyperparameter))]

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` by calling the module."""
        recorder, output = RECORDER.get(), None
        index = {} if self.retriever is None else {"rm": ModuleRetriever(self.retriever)}
        lm = copy_of(dspy.settings.lm, **default_sampling(dspy.settings.lm))
        with track_usage(UsageTracker()) as tracker, dspy.context(adapter=adapter_in_use(), lm=lm, **index):
            try:
                output = self.module(**{self.question_input: question})
            except AdapterParseError as error:
                recorder.cost.unreadable = tracker.usage.asked
                self.record(Malformed(act=self.name, problem=without_surrogates(shorten(error, 300))))
        fields: dict[str, Any] = dict(output) if isinstance(output, (dspy.Prediction, dict)) else {}
        answer = self._answer_of(fields or output)
        passages = [*recorder.passages.values()]
        if not any(isinstance(step, Retrieved) for step in recorder.steps):
            recorder.cost.unseen_searches = int(self.may_search)
            given = fields.get("passages")
            passages = [each for each in given if isinstance(each, Passage)] if isinstance(given, list) else []
        recorder.count_calls(tracker.usage)  # as if they waited for one another
        if not (tracker.usage.asked or tracker.usage.uncounted_calls):  # no call was seen: it was made around DSPy
            recorder.tracker.add(Usage(uncounted_calls=1))
        supported = fields.get("supported")
        fields |= {"supported": supported if isinstance(supported, bool) else None, "passages": passages}
        return self.conclude(**{**fields, "answer": answer, "missing": _text(fields.get("missing"))})

    def _answer_of(self, output: Any) -> str:
        """The answer among the outputs of the module."""
        if isinstance(output, dict):
            plain = [n for n, v in output.items() if n not in _BESIDE and isinstance(v, (str, bool, int, float))]
            if "answer" not in output and len(plain) != 1:
                raise UsageError(f"{self.name} has the outputs {', '.join(output)}: call its answer `answer`")
            output = output["answer" if "answer" in output else plain[0]]
        return _text(output)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        memo[id(self.module)] = self.module.deepcopy()  # which copies what can be copied
        return super().__deepcopy__(memo)


def wrap(module: ModuleLike, reference: str = "") -> type[ModuleProgram]:
    """The class of programs that wrap a module, a class or an object.

    Args:
        module: a class that can be instantiated without arguments, except for `retriever`; or an object, which is
            copied for each program.
        reference: `module:Name` of the class or the object; default: that of the class.
    """
    code = module if isinstance(module, type) else type(module)
    reference = reference or reference_of(code)
    label = reference.rpartition(":")[2]
    facts = {"source": module, "code": code, "reference": reference, "name": label, "__doc__": code.__doc__}
    return type(label, (ModuleProgram,), facts)


def is_plain(program: Any) -> bool:
    """Whether this is a `dspy.Module`, class or object, that is not a `Program`."""
    code = program if isinstance(program, type) else type(program)
    return issubclass(code, dspy.Module) and not issubclass(code, Program)


def as_program(program: Any) -> Any:
    """Wrap a `dspy.Module` that is not a `Program`, as it is; return anything else unchanged."""
    return wrap(program)(module=program) if is_plain(program) else program


def named_programs(programs: Sequence[Any]) -> dict[str, Any]:
    """Programs and DSPy modules, as programs by their names.

    Raises:
        UsageError: there is none, or two have the same name.
    """
    by_name = {program.name: program for program in map(as_program, programs)}
    if not by_name or len(by_name) < len(programs):
        names = ", ".join(as_program(program).name for program in programs) or "none"
        raise UsageError(f"name programs, each with a name of its own: given are {names}")
    return by_name


def _text(output: Any) -> str:
    """The text of an output, or of all in a list."""
    parts = output if isinstance(output, (list, tuple)) else [output]
    return without_surrogates("; ".join(str(part) for part in parts if part is not None).strip())


def _input_of(module: dspy.Module) -> str:
    """The name of the input that takes the question."""
    forward = inspect.signature(type(module).forward).parameters  # pyright: ignore[reportAttributeAccessIssue]
    named = [p for p in [*forward.values()][1:] if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    names = [p.name for p in named if p.default is p.empty or p.name == "question"]
    if not named:
        predictors = cast("list[Any]", module.predictors())
        signature: Any = getattr(module, "signature", None) or next((p.signature for p in predictors), None)
        names = [*getattr(signature, "input_fields", ())]
    if len(names) != 1:
        takes = ", ".join(names) or "no input"
        raise UsageError(f"{type(module).__name__} takes {takes}, but a program is given only a question")
    return names[0]
