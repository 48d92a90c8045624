"""What a program needs of an entailment model, and entailment models by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from knowgap.plugins import make


@runtime_checkable
class EntailmentModel(Protocol):
    """Judges whether a premise says that a hypothesis is true.

    Attributes:
        name: the model.
        default_threshold: the probability from which a hypothesis counts as entailed.
    """

    name: str
    default_threshold: float

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The probability, 0 to 1, that the premise entails the hypothesis, for each (premise, hypothesis) pair."""
        ...


def make_entailment(name: str | Path, *, device: str | None = None) -> EntailmentModel:
    """Load an entailment model by name.

    Args:
        name: `embedded`, or the folder or hub name of a T5 or of a cross-encoder; or one from outside: `module:Name`,
            or what an installed package offers under that name in the group `knowgap.entailment_models`.
        device: where to compute; None takes a GPU if there is one.

    Raises:
        CheckpointError: no such model.
        UsageError: a model from outside that cannot be imported or made, or is none.
    """
    from knowgap.retrieval.entailment.cross_encoder import NLICrossEncoder
    from knowgap.retrieval.entailment.embedded import EmbeddedEntailment
    from knowgap.retrieval.entailment.t5 import T5TrueNLI
    from knowgap.retrieval.rerankers.cross_encoder import loading_model

    if str(name) == "embedded":
        return EmbeddedEntailment()
    if outside := make("entailment model", name, EntailmentModel):
        return outside
    with loading_model(name):
        from transformers import AutoConfig

        is_t5 = AutoConfig.from_pretrained(str(name)).is_encoder_decoder
    return T5TrueNLI(name, device=device) if is_t5 else NLICrossEncoder(name, device=device)
