"""What the trainings change in the stock trainers. Importing this imports Transformers and sentence-transformers."""

from __future__ import annotations

import math
from typing import Any

from sentence_transformers.cross_encoder import CrossEncoderTrainer
from transformers import TrainerCallback

from knowgap.errors import UsageError
from knowgap.storage.progress import Progress


class Watch(TrainerCallback):
    """Reports losses, and ends a run whose loss is no longer a number."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Report a loss; `UsageError` if it is no number."""
        if (loss := (logs or {}).get("loss")) is None:
            return
        if not math.isfinite(loss):
            lower = f"a learning rate lower than {args.learning_rate:g} may help"
            raise UsageError(f"the loss is {loss} at step {state.global_step}: {lower}")
        self.progress(state.global_step, state.max_steps, f"loss {loss:.4f}")


class OfflineTrainer(CrossEncoderTrainer):
    """A trainer of cross-encoders that asks no hub."""

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Add none: it would ask the hub about the base."""
