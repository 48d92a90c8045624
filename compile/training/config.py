"""How a model is trained."""

from __future__ import annotations

import math
from dataclasses import dataclass

from knowgap.errors import ValueOutOfBounds

__all__ = ["TrainingConfig"]

_BOUNDS: dict[str, tuple[float, float]] = {
    "epochs": (0, 10_000),
    "learning_rate": (0, 1),
    "batch_size": (1, 100_000),
    "gradient_accumulation": (1, 100_000),
    "warmup_ratio": (0, 1),
    "max_length": (1, 1_000_000),
    "lora_rank": (1, 4096),
    "seed": (0, 2**32 - 1),
}
_WHOLE = ("batch_size", "gradient_accumulation", "max_length", "lora_rank", "seed")
_POSITIVE = ("epochs", "learning_rate")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """The settings of a training run; every kind of model has its own defaults.

    Attributes:
        epochs: passes over the examples, above 0; may be a part of one.
        learning_rate: the highest, above 0 and at most 1; it rises from 0 while warming up, and then falls to 0.
        batch_size: examples that each process computes at once.
        gradient_accumulation: batches to one step of the optimizer.
        warmup_ratio: the share of the steps in which the learning rate rises, 0 to 1.
        max_length: tokens of one example at most; the rest is cut off.
        lora_rank: train matrices of this rank beside the frozen weights (LoRA, arXiv:2106.09685), and add them to the
            weights at the end; None trains the weights themselves.
        seed: of the order of examples, of new weights and of dropout.

    Raises:
        ValueOutOfBounds: a value outside of its bounds.
    """

    epochs: float = 1.0
    learning_rate: float = 2e-5
    batch_size: int = 16
    gradient_accumulation: int = 1
    warmup_ratio: float = 0.1
    max_length: int = 512
    lora_rank: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (low, high) in _BOUNDS.items():
            value = getattr(self, name)
            if value is None and name == "lora_rank":
                continue
            kind, is_number = ("a whole number", int) if name in _WHOLE else ("a number", (int, float))
            above = "above" if name in _POSITIVE else "from"
            right = isinstance(value, is_number) and not isinstance(value, bool) and low <= value <= high
            if not right or (name in _POSITIVE and value == low):
                raise ValueOutOfBounds(f"{name} = {value!r}: must be {kind} {above} {low:g} to {high:g}")

    def steps(self, examples: int, processes: int = 1) -> int:
        """How many steps of the optimizer so many examples take, on so many processes."""
        batches = math.ceil(examples / (self.batch_size * processes))
        return math.ceil(self.epochs * math.ceil(batches / self.gradient_accumulation))
