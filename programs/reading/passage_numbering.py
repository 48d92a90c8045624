"""Passages under the numbers by which a language model cites them, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from knowgap.retrieval.passage import Passage
from knowgap.signatures import SourcePassage

__all__ = ["cited", "distinct", "number_passages"]


def number_passages(inputs: Mapping[str, Any]) -> tuple[dict[str, Any], list[Passage]]:
    """Number the passages of each list of passages among a predictor's inputs, from 1.

    Returns:
        The inputs with `SourcePassage`s in place of passages, and the passages themselves.
    """
    numbered, passages = dict(inputs), list[Passage]()
    for name, value in inputs.items():
        if isinstance(value, list) and any(isinstance(item, Passage) for item in value):
            numbered[name] = [SourcePassage(id=n, title=p.title, text=p.text) for n, p in enumerate(value, start=1)]
            passages += value
    return numbered, passages


def cited(passages: Sequence[Passage], numbers: Iterable[int]) -> list[Passage]:
    """The passages that a model cites by number, each once, in the order of citation; unknown numbers are ignored."""
    known = [number for number in dict.fromkeys(numbers) if 1 <= number <= len(passages)]
    return [passages[number - 1] for number in known]


def distinct(passages: Iterable[Passage]) -> list[Passage]:
    """Each passage once, in order of first appearance."""
    return list({passage.id: passage for passage in passages}.values())
