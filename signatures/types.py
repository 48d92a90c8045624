"""The typed values that signatures exchange with a language model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import dspy
from pydantic import BaseModel, BeforeValidator, Field, model_validator

from knowgap.signatures.values import read_fraction, read_ids, read_scale, read_text

Grade = Annotated[int, BeforeValidator(read_scale)]
"""A whole number from 1 to 5, as a model states it: a field's type carries what reads it."""
Probability = Annotated[float, BeforeValidator(read_fraction)]
"""A number from 0 to 1, as a model states it."""


def optional(desc: str, make: Callable[[], Any] = str, **bounds: int) -> Any:
    """An output field that a reply may lack; its value is then what `make` returns."""
    return dspy.OutputField(desc=desc, default_factory=make, **bounds)


def unsaid() -> None:
    """The value of a judgement that a reply lacks: the text beside it decides, as the judgement does without a text."""


class SourcePassage(BaseModel):
    """A passage as the model sees it, under a number that it can cite."""

    id: int = Field(description="number to cite it by, from 1")
    title: str
    text: str


class Statement(BaseModel):
    """One fact and where it was read."""

    statement: str = Field(description="one self-contained sentence: full names, no pronouns")
    sources: list[int] = Field(description="ids of the passages that say so")

    @model_validator(mode="before")
    @classmethod
    def _as_written(cls, value: Any) -> Any:
        """Read a text with citations, other names for the fields, and ids in words; missing ids are none."""
        if isinstance(value, str):
            value = {"statement": value}
        if not isinstance(value, Mapping):
            return value
        named = {str(key).casefold(): item for key, item in value.items()}
        text = read_text(named.get("statement", named.get("fact")))
        if not text:
            raise ValueError("no statement")
        sources = named.get("sources", named.get("source"))
        if sources is None and (cited := _CITED.search(text, max(0, len(text) - _LONGEST_CITATION))):
            sources, text = cited[1], text[: cited.start()] + cited[2]
        return {"statement": text, "sources": read_ids(sources)}


_CITED = re.compile(r"\s*((?:[\[(]\d{1,2}(?:, ?\d{1,2})*[\])]\s*)+)(\.?)\Z")
"""Citations at the end of a statement: `[1][2]`, `(1, 2)`."""
_LONGEST_CITATION = 300
"""The characters at the end of a statement that are searched for citations: the time grows with their square."""


class SubAnswer(BaseModel):
    """A sub-question with its answer."""

    question: str
    answer: str
