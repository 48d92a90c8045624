"""Passages under the numbers by which a language model cites them, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from knowgap.retrieval.passage import Passage
from knowgap.signatures import SourcePassage

__all__ = ["cited", "distinct", "numbered"]


def numbered(passages: Sequence[Passage]) -> list[SourcePassage]:
    """The passages under the numbers 1, 2, 3, … by which the model cites them."""
    return [SourcePassage(id=n, title=p.title, text=p.text) for n, p in enumerate(passages, start=1)]


def cited(passages: Sequence[Passage], ids: Iterable[int]) -> list[Passage]:
    """The passages behind cited numbers: each once, in citation order; numbers that do not exist are left out."""
    known = [number for number in dict.fromkeys(ids) if 1 <= number <= len(passages)]
    return [passages[number - 1] for number in known]


def distinct(passages: Iterable[Passage]) -> list[Passage]:
    """Each passage once, in order of first appearance."""
    return list({passage.id: passage for passage in passages}.values())
