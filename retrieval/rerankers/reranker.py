"""What a program needs of a reranker, and rerankers by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from knowgap.plugins import make


@runtime_checkable
class Reranker(Protocol):
    """Scores how relevant a text is to a query, from both together.

    Attributes:
        name: the model.
        default_threshold: the score from which a text counts as relevant (MIGRES' δ), on this reranker's scale; None
            if unknown, then calibration sets it.
        scale: what the scores are, in words. A threshold has no meaning without it.
    """

    name: str
    default_threshold: float | None
    scale: str

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One raw score per (query, text) pair; higher is more relevant. Scores of known pairs are cached."""
        ...


def make_reranker(name: str | Path, *, device: str | None = None) -> Reranker:
    """Load a reranker by name.

    Args:
        name: `embedded`, or the folder or hub name of a cross-encoder; or one from outside: `module:Name`, or what an
            installed package offers under that name in the group `knowgap.rerankers`.
        device: where to compute; None takes a GPU if there is one.

    Raises:
        CheckpointError: no such model.
        UsageError: a model from outside that cannot be imported or made, or is none.
    """
    from knowgap.retrieval.rerankers.cross_encoder import CrossEncoderReranker
    from knowgap.retrieval.rerankers.embedded import EmbeddedReranker

    if str(name) == "embedded":
        return EmbeddedReranker()
    return make("reranker", name, Reranker) or CrossEncoderReranker(name, device=device)
