"""Steps of a question that are settled or missing, and its answer."""

from __future__ import annotations

from dataclasses import dataclass

from knowgap.lms.embedded.english.language import Sentence
from knowgap.lms.embedded.english.relations import Relation
from knowgap.lms.embedded.reading import Found

__all__ = ["Answer", "Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """One relation of one thing: settled by `found`, or missing where that is None."""

    name: str
    relation: Relation
    found: Found | None

    @property
    def missing(self) -> str:
        """The fact to find, in words."""
        return f"the {self.relation.name} of {self.name}"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, its certainty from 0 to 1, the sentences that support it, and the facts that are missing."""

    text: str
    certainty: float
    support: tuple[Sentence, ...] = ()
    lacks: tuple[Step, ...] = ()
