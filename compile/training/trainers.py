"""Trainers and a loss, a module of its own so that sentence-transformers is imported only when a training starts."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers import CrossEncoderTrainer, MultiVectorEncoder, MultiVectorEncoderTrainer
from sentence_transformers.multi_vector_encoder.losses import MultiVectorMultipleNegativesRankingLoss
from sentence_transformers.multi_vector_encoder.scoring import colbert_scores


class _WithoutModelCard:
    """Writes no model card, for which a trainer would ask the hub about the base model."""

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Add none."""


class RerankerTrainer(_WithoutModelCard, CrossEncoderTrainer):
    """The trainer of cross-encoders."""


class ColBERTTrainer(_WithoutModelCard, MultiVectorEncoderTrainer):
    """The trainer of encoders of token vectors."""


class QuestionLoss(MultiVectorMultipleNegativesRankingLoss):
    """The contrastive loss with weights of query tokens, which leaves out the other gold passages of a question.

    Args:
        encoder: the model that is trained.
        token_weights: the weight of each token of the vocabulary in a query; None weighs all alike.
    """

    def __init__(self, encoder: MultiVectorEncoder, token_weights: torch.Tensor | None):
        super().__init__(encoder)
        self.token_weights, self.padding = token_weights, encoder.tokenizer.pad_token_id

    def forward(self, sentence_features: Any, labels: Any = None) -> torch.Tensor:
        """The loss of a batch."""
        features = list(sentence_features)
        queries, gold, *_ = ids = [each["input_ids"] for each in features]
        excluded = torch.stack([self._equal(gold, texts) for texts in ids[1:]], dim=-1)  # [queries, rows, columns]
        excluded[..., 0] |= self._equal(queries, queries)
        excluded[..., 0].fill_diagonal_(False)
        excluded = excluded.flatten(1)
        weights = 1.0 if self.token_weights is None else self.token_weights.to(queries.device)[queries][..., None]

        def scores(vectors: torch.Tensor, passages: torch.Tensor, **masks: Any) -> torch.Tensor:
            return colbert_scores(vectors * weights, passages, **masks).masked_fill(excluded, -torch.inf)

        self.similarity_fct = scores
        return super().forward(features, labels)

    def _equal(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Which texts are the same, [texts of one, texts of the other]."""
        width = max(one.shape[1], other.shape[1])
        one, other = (
            torch.nn.functional.pad(ids, (0, width - ids.shape[1]), value=self.padding) for ids in (one, other)
        )
        return (one[:, None] == other[None]).all(-1)
