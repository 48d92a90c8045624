"""Passages, hits, and the one way in which a program asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

__all__ = ["Hit", "Passage", "Retriever", "rank_hits"]


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of text that can be retrieved and cited.

    Args:
        id: unique within its corpus.
        title: the article or document it comes from; may be empty.
        text: what it says, without the title.
    """

    id: str
    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.title}: {self.text}" if self.title else self.text

    def to_dict(self) -> dict[str, str]:
        """The passage as a JSON-ready mapping."""
        return {"id": self.id, "title": self.title, "text": self.text}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Passage:
        """The inverse of `to_dict`; keys other than id, title and text are ignored."""
        return cls(id=str(record["id"]), title=str(record.get("title", "")), text=str(record["text"]))


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage found for a query.

    Args:
        passage: what was found.
        score: the engine's own score; higher is better, comparable within one list only.
        rank: position in its list, from 1.
    """

    passage: Passage
    score: float
    rank: int


@runtime_checkable
class Retriever(Protocol):
    """What a program needs of an index.

    `search` is batch first and thread-safe. Each list holds at most `k` hits, scores descending, ties broken by
    passage id, no passage twice. A retriever is shared: `copy.deepcopy` of one returns the same object, because
    optimizers deep-copy programs.
    """

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The `k` best passages for each of the `queries`, one list per query, in their order."""
        ...


def rank_hits(scored: Iterable[tuple[Passage, float]], k: int) -> list[Hit]:
    """Order scored passages by the contract: best score first, ties by id, each passage once, at most `k`."""
    best: dict[str, tuple[Passage, float]] = {}
    for passage, score in scored:
        if passage.id not in best or score > best[passage.id][1]:
            best[passage.id] = (passage, score)
    ordered = sorted(best.values(), key=lambda pair: (-pair[1], pair[0].id))[:k]
    return [Hit(passage, float(score), rank) for rank, (passage, score) in enumerate(ordered, start=1)]
