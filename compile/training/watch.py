"""What is heard of a training while it runs. Importing this imports Transformers."""

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
        """Have the loss of the last step logged, too."""
        control.should_log |= state.global_step >= state.max_steps

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Report a loss; `UsageError` if it is no number."""
        loss = (logs or {}).get("loss")
        if loss is None:
            return
        if not math.isfinite(loss):
            raise UsageError(
                f"the loss is {loss} at step {state.global_step}: a learning rate lower than "
                f"{args.learning_rate:g} may help"
            )
        self.progress(state.global_step, state.max_steps, f"loss {loss:.4f}")
