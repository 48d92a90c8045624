"""Whether statements are held up by the passages they cite (ALCE's citation recall)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from knowgap.retrieval.passage import Passage

if TYPE_CHECKING:
    from knowgap.retrieval.entailment.model import EntailmentModel

__all__ = ["citation_recall", "supported"]


def supported(
    entailment: EntailmentModel, claims: Mapping[str, Sequence[Passage]], threshold: float
) -> dict[str, bool]:
    """Whether the passages that a statement cites, taken together, entail it.

    Args:
        entailment: gives the probability that a premise entails a hypothesis.
        claims: statement → the passages it cites.
        threshold: probability from which it counts as entailed.

    Returns:
        Statement → supported or not; one that cites nothing is not.
    """
    citing = {statement: passages for statement, passages in claims.items() if passages}
    pairs = [("\n".join(str(passage) for passage in passages), statement) for statement, passages in citing.items()]
    held = {
        statement: probability >= threshold
        for statement, probability in zip(citing, entailment.entails(pairs), strict=True)
    }
    return {statement: held.get(statement, False) for statement in claims}


def citation_recall(entailment: EntailmentModel, claims: Mapping[str, Sequence[Passage]], threshold: float) -> float:
    """The share of statements that their citations support, from 0 to 1; 0 without statements.

    Source: Gao et al., "Enabling Large Language Models to Generate Text with Citations" (EMNLP 2023), section 3.
    """
    held = supported(entailment, claims, threshold).values()
    return sum(held) / len(held) if held else 0.0
