"""Cross-encoders trained on natural language inference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scipy.special import expit, softmax

from knowgap.errors import CheckpointError
from knowgap.retrieval.rerankers.cross_encoder import load_cross_encoder, predict_logits
from knowgap.retrieval.rerankers.pair_scores import PairScorer, cached


class NLICrossEncoder(PairScorer):
    """A cross-encoder trained on natural language inference, such as `cross-encoder/nli-deberta-v3-base`.

    Args:
        model: a folder, or a name on the Hugging Face hub. One of its labels must be called entailment, or it must
            have a single label.
        device: where to compute; None takes a GPU if there is one.

    Raises:
        CheckpointError: no such model, or its labels do not say which of them is entailment.
    """

    def __init__(self, model: str | Path, *, device: str | None = None) -> None:
        super().__init__()
        self.name = str(model)
        self.default_threshold = 0.5
        self._model = load_cross_encoder(model, device=device)
        labels = {int(i): str(label).lower() for i, label in self._model.config.id2label.items()}
        entailment = [i for i, label in labels.items() if label.startswith("entail")]
        if len(labels) > 1 and len(entailment) != 1:
            raise CheckpointError(f"{self.name}: none of its labels is entailment: {', '.join(labels.values())}")
        self._entailment_label = entailment[0] if entailment else 0

    @cached
    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The probability of the label entailment for each (premise, hypothesis) pair."""
        logits = predict_logits(self._model, pairs)
        if logits.shape[1] == 1:
            return expit(logits[:, 0]).tolist()
        return softmax(logits, axis=1)[:, self._entailment_label].tolist()
