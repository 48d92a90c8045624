"""The trainer of rerankers. Importing this imports sentence-transformers."""

from __future__ import annotations

from typing import Any

from sentence_transformers.cross_encoder import CrossEncoderTrainer


class OfflineTrainer(CrossEncoderTrainer):
    """A trainer of cross-encoders that asks no hub."""

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Add none: it would ask the hub about the base."""
