"""A callback of trainers, a module of its own so that Transformers is imported only when a training starts."""

from __future__ import annotations

import math
from typing import Any

from transformers import TrainerCallback

from knowgap.errors import UsageError
from knowgap.storage.progress import Progress


class Watch(TrainerCallback):
    """Reports losses, and ends a run whose loss is no longer a number."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Have the last loss logged."""
        if state.global_step >= state.max_steps:
            control.should_log = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Report a loss."""
        loss = (logs or {}).get("loss")
        if loss is None:
            return
        if not math.isfinite(loss):
            raise UsageError(
                f"the loss is {loss} at step {state.global_step}: a learning rate lower than "
                f"{args.learning_rate:g} may help"
            )
        self.progress(state.global_step, state.max_steps, f"loss {loss:.4f}")
