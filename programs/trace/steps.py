"""The steps a program can take: what stands in a trace.

Passages are named by id; the trace keeps each passage once. Every step knows its iteration (from 1; 0 before the
first), the branch it was taken in (empty outside trees and recursions) and when it happened, in seconds from the start.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "Answered",
    "AnyStep",
    "Asked",
    "Compared",
    "Compressed",
    "Decomposed",
    "Extracted",
    "Filtered",
    "Judged",
    "Malformed",
    "Missing",
    "Noted",
    "Prompted",
    "Queried",
    "Reasoned",
    "Refined",
    "Rejected",
    "Reranked",
    "Retrieved",
    "Selected",
    "Step",
    "Stopped",
]


class Step(BaseModel):
    """What all steps share."""

    model_config = ConfigDict(extra="forbid")

    iteration: int = 0
    branch: str = ""
    at: float = Field(default=0.0, description="seconds from the start of the question")


class Asked(Step):
    """A question or sub-question begins."""

    kind: Literal["asked"] = "asked"
    question: str


class Retrieved(Step):
    """Passages came back for queries: ids per query, best first."""

    kind: Literal["retrieved"] = "retrieved"
    queries: list[str]
    k: int
    hits: list[list[str]]


class Reranked(Step):
    """Passages were scored against queries: kept and dropped, with their best scores."""

    kind: Literal["reranked"] = "reranked"
    threshold: float | None
    kept: dict[str, float]
    dropped: dict[str, float]


class Compressed(Step):
    """A passage was cut down before reading: to sentences, a summary or a snippet."""

    kind: Literal["compressed"] = "compressed"
    how: Literal["sentences", "summary", "snippet", "whole"]
    passage: str
    text: str


class Prompted(Step):
    """The model wrote down what it knows itself; the passage is marked as its own."""

    kind: Literal["prompted"] = "prompted"
    queries: list[str]
    passage: str
    text: str


class Extracted(Step):
    """Useful statements and the passages that support each."""

    kind: Literal["extracted"] = "extracted"
    statements: list[str]
    sources: list[list[str]]


class Rejected(Step):
    """A statement or passage was not taken over, and why."""

    kind: Literal["rejected"] = "rejected"
    what: str
    why: str


class Missing(Step):
    """What is known does not suffice: this is missing."""

    kind: Literal["missing"] = "missing"
    missing: str
    known: list[str] = []
    explanation: str = ""


class Queried(Step):
    """New queries were written; those asked before were left out."""

    kind: Literal["queried"] = "queried"
    queries: list[str]
    repeated: list[str] = []


class Noted(Step):
    """A note was written or rewritten."""

    kind: Literal["noted"] = "noted"
    note: str
    passages: list[str] = []


class Compared(Step):
    """A new note was held against the best one."""

    kind: Literal["compared"] = "compared"
    better: bool
    reason: str = ""


class Judged(Step):
    """A gate was passed or not: self-knowledge, relevance of a passage, and the like."""

    kind: Literal["judged"] = "judged"
    what: str
    value: bool
    passage: str = ""
    reason: str = ""


class Filtered(Step):
    """Passages were kept or dropped by the model."""

    kind: Literal["filtered"] = "filtered"
    kept: list[str]
    dropped: list[str]
    reason: str = ""


class Decomposed(Step):
    """A question was broken into sub-questions."""

    kind: Literal["decomposed"] = "decomposed"
    questions: list[str]


class Refined(Step):
    """A query was rewritten, decomposed or disambiguated."""

    kind: Literal["refined"] = "refined"
    action: str
    query: str


class Reasoned(Step):
    """Text that the model wrote on the way: a chain of thought, a passage from memory."""

    kind: Literal["reasoned"] = "reasoned"
    what: str
    text: str


class Answered(Step):
    """An answer, final or of a branch."""

    kind: Literal["answered"] = "answered"
    answer: str
    confidence: float | None = None
    explanation: str = ""
    passages: list[str] = []


class Selected(Step):
    """One of several answers was chosen."""

    kind: Literal["selected"] = "selected"
    strategy: str
    answer: str
    scores: dict[str, float] = {}


class Malformed(Step):
    """The language model's output could not be read, and counts as nothing found."""

    kind: Literal["malformed"] = "malformed"
    act: str
    problem: str


class Stopped(Step):
    """The loop ended, and why."""

    kind: Literal["stopped"] = "stopped"
    reason: str


AnyStep = Annotated[
    Asked
    | Retrieved
    | Reranked
    | Compressed
    | Prompted
    | Extracted
    | Rejected
    | Missing
    | Queried
    | Noted
    | Compared
    | Judged
    | Filtered
    | Decomposed
    | Refined
    | Reasoned
    | Answered
    | Selected
    | Malformed
    | Stopped,
    Field(discriminator="kind"),
]
