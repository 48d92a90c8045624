"""What a reading comes to: steps that are settled or missing, and an answer."""

from __future__ import annotations

from dataclasses import dataclass

from knowgap.lms.embedded.english.language import Sentence
from knowgap.lms.embedded.english.relations import Relation
from knowgap.lms.embedded.reading import Found

__all__ = ["Answer", "Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """One relation of one thing: settled (`found`), or what is missing."""

    name: str
    relation: Relation
    found: Found | None

    @property
    def missing(self) -> str:
        """The fact in words."""
        return f"the {self.relation.name} of {self.name}"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, how sure it is (0 to 1), the sentences that it rests on, and the facts that it lacks."""

    text: str
    certainty: float
    support: tuple[Sentence, ...] = ()
    lacks: tuple[Step, ...] = ()
