"""The trace of one question: its steps, its passages and what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from knowgap.programs.trace.steps import AnyStep, Step
from knowgap.retrieval.passage import Passage

if TYPE_CHECKING:
    from rich.tree import Tree

__all__ = ["Cost", "Trace"]

S = TypeVar("S", bound=Step)


class Cost(BaseModel):
    """What one question cost.

    Calls answered from a cache are counted in `lm_calls` as well as in `cached_calls`, and their tokens too: the cost
    of a method does not depend on what was asked before. `critical_calls` and `critical_seconds` measure the longest
    chain of language-model calls that had to wait for one another.

    `knowledge_tokens` is the consumption of external knowledge (MIGRES, table 5): the text that was retrieved, as it
    went into calls of the language model. Counted are the words of title and text
    (`programs.reading.knowledge_tokens`). Of a passage that was cut to sentences, summarised or excerpted, the words
    that were left count, once for each call that they went into: also calls in which the model summarises, excerpts or
    judges passages, and calls repeated because a reply could not be read. Not counted are questions, instructions,
    demonstrations, and what the model wrote itself: notes, extracted statements, sub-answers, drafts, passages from its
    memory. A tokenizer of word pieces counts more.
    """

    model_config = ConfigDict(extra="forbid")

    lm_calls: int = 0
    cached_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    retrievals: int = Field(default=0, description="queries sent to the retriever")
    passages: int = Field(default=0, description="distinct passages read by the language model")
    knowledge_tokens: int = Field(default=0, description="words of retrieved text read, each time they are read")
    iterations: int = 0
    seconds: float = Field(default=0.0, description="wall time of the question")
    critical_calls: int = 0
    critical_seconds: float = 0.0


class Trace(BaseModel):
    """What a program did for one question, step by step.

    Attributes:
        program: the program's name in the registry.
        question: what was asked.
        steps: in the order of the algorithm; independent branches stand one after another, whichever ended first.
        passages: every passage that a step names, by id.
        cost: the ledger.
    """

    model_config = ConfigDict(extra="forbid")

    program: str
    question: str
    steps: list[AnyStep] = []
    passages: dict[str, dict[str, str]] = {}
    cost: Cost = Cost()

    def of(self, kind: type[S]) -> list[S]:
        """The steps of one kind, in order."""
        return [step for step in self.steps if isinstance(step, kind)]

    def passage(self, passage_id: str) -> Passage:
        """The passage that a step names."""
        return Passage.from_dict(self.passages[passage_id])

    @property
    def stopped(self) -> str:
        """The last stopping reason, or an empty string."""
        reasons = [step.reason for step in self.steps if step.kind == "stopped"]
        return reasons[-1] if reasons else ""

    def to_json(self) -> str:
        """The trace as JSON; `from_json` is the inverse."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str | bytes) -> Trace:
        """Read what `to_json` wrote."""
        return cls.model_validate_json(text)

    def __rich__(self) -> Tree:
        from knowgap.programs.trace.view import trace_tree

        return trace_tree(self)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Trace:
        return self.model_copy()
