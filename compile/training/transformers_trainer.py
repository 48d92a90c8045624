"""What is made of Transformers' trainer, a module of its own so that it is imported only when a training starts."""

from __future__ import annotations

import math
from typing import Any

import torch
from transformers import Trainer, TrainerCallback

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


def summed_loss(logits: torch.Tensor, labels: torch.Tensor, *, shifted: bool) -> torch.Tensor:
    """The cross-entropy of all tokens of a batch that have a label.

    Args:
        logits: [examples, tokens, vocabulary].
        labels: [examples, tokens]; -100 where there is none.
        shifted: whether the logits at a token are those of the next one, as in a causal model.
    """
    if shifted:  # the labels, not the logits, which are large and would be copied
        labels = torch.nn.functional.pad(labels[:, 1:], (0, 1), value=-100)
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), reduction="sum")


class LanguageModelTrainer(Trainer):
    """Weighs all labelled tokens of a step alike, however the step is divided into batches and processes.

    Attributes:
        weights: after a training with FSDP, all weights, or with LoRA the trained ones, in CPU memory and in the main
            process only. None otherwise.
    """

    loss_is_scaled_for_ga = True
    weights: dict[str, torch.Tensor] | None = None

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The cross-entropy of a batch's tokens, divided by the number of labelled tokens of the whole step.

        Some models of Transformers, such as T5, would return the mean over the batch.
        """
        shifted = not self.accelerator.unwrap_model(model).config.is_encoder_decoder
        outputs = model(**{name: value for name, value in inputs.items() if name != "labels" or not shifted})
        loss = summed_loss(outputs.logits, inputs["labels"], shifted=shifted)
        loss = loss / num_items_in_batch * self.accelerator.num_processes  # gradients are averaged over processes
        return (loss, outputs) if return_outputs else loss

    def create_accelerator_and_postprocess(self) -> None:
        """Let Accelerate shard weights on the CPU, too; by itself, it does so on GPUs only."""
        super().create_accelerator_and_postprocess()
        if not self.args.fsdp or self.is_fsdp_enabled:
            return
        from accelerate.state import AcceleratorState, PartialState
        from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

        settings: dict[str, Any] = {**(self.args.fsdp_plugin_args or {})}
        plugin = FullyShardedDataParallelPlugin(**settings)
        PartialState._shared_state["distributed_type"] = DistributedType.FSDP
        AcceleratorState._shared_state.update(distributed_type=DistributedType.FSDP, fsdp_plugin=plugin)
        self.is_fsdp_enabled = True

    def train(self, *args: Any, **options: Any) -> Any:
        """Train; with FSDP, gather the weights at the end."""
        done = super().train(*args, **options)
        if self.is_fsdp_enabled:
            gathered: Any = self.accelerator.get_state_dict(self.model)
            self.weights = gathered
        return done
