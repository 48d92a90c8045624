"""The typed values that signatures exchange with a language model."""

from __future__ import annotations

from pydantic import BaseModel, Field

__all__ = ["SourcePassage", "Statement", "SubAnswer"]


class SourcePassage(BaseModel):
    """A passage as the model sees it, under a number that it can cite."""

    id: int = Field(description="number to cite it by, from 1")
    title: str
    text: str


class Statement(BaseModel):
    """One fact and where it was read."""

    statement: str = Field(description="one self-contained sentence: full names, no pronouns")
    sources: list[int] = Field(description="ids of the passages that say so")


class SubAnswer(BaseModel):
    """A sub-question with its answer."""

    question: str
    answer: str
