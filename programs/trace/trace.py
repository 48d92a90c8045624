"""The trace of one question: its steps, its passages and what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from knowgap.programs.trace.steps import AnyStep, Step, Stopped
from knowgap.retrieval.passage import Passage

if TYPE_CHECKING:
    from rich.tree import Tree

__all__ = ["Cost", "Trace"]

S = TypeVar("S", bound=Step)


class Cost(BaseModel):
    """The cost of one question.

    A call answered from a cache counts in both `lm_calls` and `cached_calls`, and so do its tokens: the cost of a
    method does not depend on what was asked before. `critical_calls` and `critical_seconds` measure the longest chain
    of language-model calls that wait for one another.

    `knowledge_tokens` is the consumption of external knowledge (MIGRES, table 5): the words of titles and texts of
    retrieved passages that the model reads, as far as they are left after filtering or summarising. They count once
    per call, in which the model may also summarise or judge passages, or repeat an unreadable reply. Questions,
    instructions, demonstrations and what the model wrote itself do not count. A tokenizer of word pieces counts more.
    """

    model_config = ConfigDict(extra="forbid")

    lm_calls: int = 0
    cached_calls: int = 0
    uncounted_calls: int = Field(
        default=0, description="calls of models that went around the meter; they are in no other number"
    )
    unreadable: int = Field(default=0, description="LM calls of requests to which no reply could be read")
    cut: int = Field(default=0, description="LM calls whose reply ended at the limit of tokens")
    prompt_tokens: int = 0
    completion_tokens: int = 0
    retrievals: int = Field(default=0, description="queries sent to the retriever")
    passages: int = Field(default=0, description="distinct passages read by the language model")
    knowledge_tokens: int = Field(default=0, description="words of retrieved text read, each time they are read")
    iterations: int = 0
    seconds: float = Field(default=0.0, description="wall time of the question")
    critical_calls: int = 0
    critical_seconds: float = 0.0

    @property
    def all_unreadable(self) -> bool:
        """Whether the language model was asked and no reply could be read."""
        return 0 < self.lm_calls == self.unreadable


class Trace(BaseModel):
    """What a program did for one question, step by step.

    Attributes:
        program: the program's name in the registry.
        question: the question asked.
        steps: in the order of the algorithm; concurrent branches follow one after another, whichever ended first.
        passages: every passage that a step names, by id.
        shown: passages that stood before the language model, by id: how many characters of the passage's text a prompt
            had at most. It is the length of the whole text where nothing was cut.
        cost: the cost of the question.
    """

    model_config = ConfigDict(extra="forbid")

    program: str
    question: str
    steps: list[AnyStep] = []
    passages: dict[str, dict[str, str]] = {}
    shown: dict[str, int] = {}
    cost: Cost = Cost()

    def of(self, kind: type[S]) -> list[S]:
        """The steps of one kind, in order."""
        return [step for step in self.steps if isinstance(step, kind)]

    def passage(self, passage_id: str) -> Passage:
        """The passage of this id."""
        return Passage.from_dict(self.passages[passage_id])

    @property
    def stopped(self) -> str:
        """The reason of the last `Stopped` step; empty if there is none."""
        return next((step.reason for step in reversed(self.of(Stopped))), "")

    def to_json(self) -> str:
        """The trace as JSON; `from_json` is the inverse."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str | bytes) -> Trace:
        """Read what `to_json` wrote."""
        return cls.model_validate_json(text)

    def __repr__(self) -> str:
        tokens = self.cost.prompt_tokens + self.cost.completion_tokens
        return f"Trace({self.program}: {len(self.steps)} steps, {self.cost.lm_calls} LM calls, {tokens} tokens)"

    __str__ = __repr__

    def __rich__(self) -> Tree:
        from knowgap.programs.trace.view import trace_tree

        return trace_tree(self)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Trace:
        return self.model_copy()
