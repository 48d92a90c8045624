"""The steps of a trace: one class for each thing that a program can do.

Steps name passages by id; the trace keeps the passages.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Step(BaseModel):
    """The base of all steps."""

    model_config = ConfigDict(extra="forbid")

    iteration: int = Field(default=0, description="from 1; 0 before the first iteration")
    branch: str = Field(default="", description="path in a tree or recursion; empty outside of branches")
    at: float = Field(default=0.0, description="seconds from the start of the question")


class Asked(Step):
    """Begin to answer a question or sub-question."""

    kind: Literal["asked"] = "asked"
    question: str


class Retrieved(Step):
    """Search for queries: the ids found for each, best first."""

    kind: Literal["retrieved"] = "retrieved"
    queries: list[str]
    k: int
    hits: list[list[str]]


class Reranked(Step):
    """Score passages against queries: those kept and those dropped, with their best scores.

    Kept are those at or above the threshold, and of those below it the best, where some are read in any case.
    """

    kind: Literal["reranked"] = "reranked"
    threshold: float | None
    kept: dict[str, float]
    dropped: dict[str, float]


class Compressed(Step):
    """Shorten a passage before reading: to sentences, a summary or a snippet."""

    kind: Literal["compressed"] = "compressed"
    how: Literal["sentences", "summary", "snippet", "whole"]
    passage: str
    text: str


class Prompted(Step):
    """Let the model write a passage from its own knowledge."""

    kind: Literal["prompted"] = "prompted"
    queries: list[str]
    passage: str
    text: str


class Extracted(Step):
    """Extract useful statements, each with the ids of the passages that it cites."""

    kind: Literal["extracted"] = "extracted"
    statements: list[str]
    sources: list[list[str]]


class Rejected(Step):
    """Reject a statement or a query, and why; a statement with the ids of the passages that it cites."""

    kind: Literal["rejected"] = "rejected"
    what: str
    why: str
    passages: list[str] = []


class Missing(Step):
    """Name the information that is missing for an answer."""

    kind: Literal["missing"] = "missing"
    missing: str
    known: list[str] = []
    explanation: str = ""


class Queried(Step):
    """Write new queries, without those asked before."""

    kind: Literal["queried"] = "queried"
    queries: list[str]
    repeated: list[str] = []


class Noted(Step):
    """Write or rewrite a note."""

    kind: Literal["noted"] = "noted"
    note: str
    passages: list[str] = []


class Compared(Step):
    """Compare a new note with the best one."""

    kind: Literal["compared"] = "compared"
    better: bool
    reason: str = ""


class Judged(Step):
    """Decide yes or no: self-knowledge, relevance of a passage and the like; by a trained model if one is named."""

    kind: Literal["judged"] = "judged"
    what: str
    value: bool
    passage: str = ""
    reason: str = ""
    by: str = ""


class Filtered(Step):
    """Let the model keep or drop passages."""

    kind: Literal["filtered"] = "filtered"
    kept: list[str]
    dropped: list[str]
    reason: str = ""


class Decomposed(Step):
    """Decompose a question into sub-questions; by a trained model if one is named."""

    kind: Literal["decomposed"] = "decomposed"
    questions: list[str]
    by: str = ""


class Refined(Step):
    """Rewrite, decompose or disambiguate a query."""

    kind: Literal["refined"] = "refined"
    action: str
    query: str


class Reasoned(Step):
    """Write an intermediate text: a chain of thought, a passage from memory."""

    kind: Literal["reasoned"] = "reasoned"
    what: str
    text: str


class Answered(Step):
    """Give an answer, final or of a branch."""

    kind: Literal["answered"] = "answered"
    answer: str
    confidence: float | None = None
    explanation: str = ""
    passages: list[str] = []


class Selected(Step):
    """Select one of several answers."""

    kind: Literal["selected"] = "selected"
    strategy: str
    answer: str
    scores: dict[str, float] = {}


class Malformed(Step):
    """Fail to read the language model's output, which counts as empty."""

    kind: Literal["malformed"] = "malformed"
    act: str
    problem: str


class Stopped(Step):
    """End the search, and why."""

    kind: Literal["stopped"] = "stopped"
    reason: str


_SearchStep = Asked | Retrieved | Reranked | Compressed | Prompted
_ReadingStep = Extracted | Rejected | Missing | Queried | Noted | Compared
_ReasoningStep = Judged | Filtered | Decomposed | Refined | Reasoned
_FinalStep = Answered | Selected | Malformed | Stopped
AnyStep = Annotated[_SearchStep | _ReadingStep | _ReasoningStep | _FinalStep, Field(discriminator="kind")]
