"""Transcripts as records: one per question."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from knowgap.retrieval.passage import Passage

__all__ = ["DROPPED", "DataConfig", "SearchStep", "TranscriptRecord"]

DROPPED = {
    "unreadable": "a reply of the teacher could not be read",
    "no query": "the teacher wrote no query",
    "gold not found": "the queries did not find all gold passages",
    "not supported": "the teacher did not find the answer in the passages",
    "other answer": "the new answer is none of the known ones",
}
"""Why a question gives no transcript."""


class DataConfig(BaseModel):
    """How transcripts are made.

    Attributes:
        top_k: passages per query (appendix B.4: 3).
        max_queries: queries of a transcript at most.
        retention: share of the questions that keep the data set's own answer instead of one made from what was
            retrieved (section 4.4, figure 4a: 0 is best).
        drop: leave out what does not match: appendix B.4 drops a question whose gold passages were not found; a new
            answer that the passages do not support, or that is none of the known ones, is dropped as well.
        seed: decides which questions keep their answer.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    top_k: int = Field(default=3, ge=1, le=20)
    max_queries: int = Field(default=4, ge=1, le=8)
    retention: float = Field(default=0.0, ge=0, le=1)
    drop: bool = True
    seed: int = 0


class SearchStep(BaseModel, extra="forbid"):
    """A query with what it found.

    Attributes:
        action: rewrite, decompose or disambiguate.
        query: as the teacher wrote it.
        passages: id, title and text of each, best first.
    """

    action: Literal["rewrite", "decompose", "disambiguate"]
    query: str
    passages: list[dict[str, str]]

    @property
    def found(self) -> list[Passage]:
        """The passages."""
        return [Passage.from_dict(passage) for passage in self.passages]


class TranscriptRecord(BaseModel, extra="forbid"):
    """What became of one question.

    Attributes:
        id: the question's.
        kind: chat, single_hop, multi_hop or ambiguous.
        question: what is asked.
        style: how the answer is worded, a key of `STYLES`.
        history: messages before the question, with role and content.
        steps: queries in order; none if no search is needed.
        answer: made from what the steps found.
        dropped: why there is no transcript, a key of `DROPPED`; empty if there is one.
        digest: of the question and its known answers.
    """

    id: str
    kind: str
    question: str
    style: str = "short"
    history: list[dict[str, str]] = []
    steps: list[SearchStep] = []
    answer: str = ""
    dropped: str = ""
    digest: str = ""
