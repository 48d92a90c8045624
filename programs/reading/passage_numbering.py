"""Passages as a language model sees them, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from knowgap.retrieval.passage import Passage
from knowgap.signatures import SourcePassage

__all__ = ["cited", "distinct", "numbered", "tidy_lines"]


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


def tidy_lines(lines: Iterable[str] | None, most: int, besides: Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """Clean a list that a model wrote.

    Args:
        lines: what the model wrote; None counts as empty.
        most: how many to keep at most.
        besides: lines that are not wanted again; compared without case, spacing and closing punctuation.

    Returns:
        The kept lines, and those left out because they are in `besides`.
    """
    seen = {_key(line) for line in besides}
    kept: list[str] = []
    repeated: list[str] = []
    for line in lines or ():
        text = " ".join(str(line).split())
        key = _key(text)
        if not key:
            continue
        if key in seen:
            repeated.append(text)
        elif len(kept) < most:
            seen.add(key)
            kept.append(text)
    return kept, repeated


def _key(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".?!。？！؟ ")
