"""The steps of a trace: one class for each thing that a program can do.

Steps name passages by id; the trace keeps the passages. Each class says how its steps are told to people.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field, computed_field, model_validator


class Step(BaseModel):
    """The base of all steps."""

    iteration: int = Field(default=0, description="from 1; 0 before the first iteration")
    branch: str = Field(default="", description="path in a tree or recursion; empty outside of branches")

    words: ClassVar[str]
    """The step in words, with its fields in braces, as `Trace.describe` fills them in."""

    def __init_subclass__(cls, *, words: str = "{kind}", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.words = words

    @computed_field
    @property
    def kind(self) -> str:
        """The name of the class in lower case, by which JSON names it."""
        return type(self).__name__.lower()

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, value: Any, read: Any) -> Any:
        """Read a step from JSON as its kind says; direct subclasses of `Step` in other modules are read as well."""
        kinds = {kind.__name__.lower(): kind for kind in Step.__subclasses__()}
        if cls is not Step or isinstance(value, Step):
            return read(value)
        if value.get("kind") not in kinds:
            raise ValueError(f"there is no step of the kind {value.get('kind')!r}")
        return kinds[value["kind"]](**value)


class Asked(Step, words="asked: {question}"):
    """Begin to answer a question or sub-question."""

    question: str


class Retrieved(Step):
    """Search for queries: the ids found for each, best first."""

    queries: list[str]
    k: int
    hits: list[list[str]]


class Reranked(Step):
    """Score passages against queries: those kept and those dropped, with their best scores.

    Passages at or above the threshold are kept, and the best ones below it if some are read in any case.
    """

    threshold: float | None
    kept: dict[str, float]
    dropped: dict[str, float]


class Compressed(Step, words="{how} of {passage}: {text}"):
    """Shorten a passage before reading: to sentences, a summary or a snippet."""

    how: Literal["sentences", "summary", "snippet"]
    passage: str
    text: str


class Prompted(Step, words="the model's own knowledge: {text}"):
    """Let the model write a passage from its own knowledge."""

    passage: str
    text: str


class Extracted(Step):
    """Extract useful statements, each with the ids of the passages that it cites."""

    statements: list[str]
    sources: list[list[str]]


class Rejected(Step, words="rejected, since no passage that it cites entails it: {statement}"):
    """Reject a statement by the ids of the passages that it cites."""

    statement: str
    passages: list[str]


class Missing(Step, words="missing: {missing}"):
    """Name the information that is missing for an answer."""

    missing: str


class Queried(Step):
    """Write new queries or sub-questions, without those asked before; `how` says what was done to get them."""

    queries: list[str]
    repeated: list[str] = []
    how: str = "asks next"


class Compared(Step, words="the new note is better: {better}"):
    """Compare a new note with the best one; its passages are those that it was written from."""

    better: bool
    passages: list[str] = []


class Judged(Step):
    """Decide yes or no: self-knowledge, relevance of a passage and the like."""

    what: str
    value: bool
    passage: str = ""


class Filtered(Step, words="kept {kept}; dropped {dropped}"):
    """Let the model keep or drop passages."""

    kept: list[str]
    dropped: list[str]


class Reasoned(Step, words="{what}: {text}"):
    """Write an intermediate text: a note on passages, a chain of thought, a passage from memory."""

    what: str
    text: str


class Answered(Step):
    """Give an answer, final or of a branch; the final one says whether what was read supports it, if it was judged."""

    answer: str
    confidence: float | None = None
    passages: list[str] = []
    supported: bool | None = None
    missing: str = ""


class Malformed(Step, words="unreadable output of {act}: {problem}"):
    """Fail to read the language model's output, which counts as empty."""

    act: str
    problem: str


class Shortened(Step, words="left out of {act}, to fit the window: {demonstrations} demonstrations; {passages}"):
    """Shorten a prompt that exceeds the context window by its last demonstrations, then by its last passages."""

    act: str
    passages: list[str]
    demonstrations: int


class Stopped(Step, words="stopped: {reason}"):
    """End the search, and say why."""

    reason: str
