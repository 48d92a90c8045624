"""What RA-ISF needs of sub-models that were trained for its sub-modules, and how their judgements are recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from knowgap.programs.trace.steps import Judged

__all__ = ["Decomposer", "RelevanceJudge", "SelfKnowledgeJudge", "judged_by", "trained_name"]


@runtime_checkable
class SelfKnowledgeJudge(Protocol):
    """Judges whether the language model knows the answers to questions.

    Attributes:
        name: the model.
        threshold: the probability from which an answer counts as known.
    """

    name: str
    threshold: float

    def knows(self, questions: Sequence[str]) -> list[float]:
        """The probability, 0 to 1, that the answer to each question is known."""
        ...


@runtime_checkable
class RelevanceJudge(Protocol):
    """Judges whether passages are relevant to questions.

    Attributes:
        name: the model.
        threshold: the probability from which a passage counts as relevant.
    """

    name: str
    threshold: float

    def relevant(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The probability, 0 to 1, that the passage is relevant, for each (question, passage)."""
        ...


@runtime_checkable
class Decomposer(Protocol):
    """Breaks questions into sub-questions.

    Attributes:
        name: the model.
    """

    name: str

    def decompose(self, questions: Sequence[str]) -> list[list[str]]:
        """The sub-questions of each question; one that needs an earlier answer says `#1`, `#2`, and so on."""
        ...


def judged_by(
    model: SelfKnowledgeJudge | RelevanceJudge,
    what: str,
    probability: float,
    threshold: float | None,
    passage: str = "",
) -> Judged:
    """The judgement of a trained model as a step; its own threshold holds if no other is given."""
    limit = model.threshold if threshold is None else threshold
    reason = f"probability {probability:.3f}"
    return Judged(what=what, value=probability >= limit, passage=passage, reason=reason, by=model.name)


def trained_name(model: object) -> str:
    """The name of a trained decomposition model; empty where a language model is asked."""
    return model.name if isinstance(model, Decomposer) else ""
