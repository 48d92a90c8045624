"""What a training run takes, before it begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from knowgap.compiling.training.config import TrainingConfig

__all__ = ["TrainingPlan", "plan_training"]


@dataclass(frozen=True)
class TrainingPlan:
    """What a training run takes, as `--dry-run` shows it.

    Attributes:
        examples: examples that are trained on.
        steps: steps of the optimizer.
        hours: estimated time of these steps on this machine; None if nothing was measured.
        teacher_calls: calls of a language model that labels the examples, at most.
    """

    examples: int
    steps: int
    hours: float | None = None
    teacher_calls: int = 0

    def rows(self) -> list[list[Any]]:
        """The plan as rows of a table: what, and how much of it."""
        return [
            ["examples", f"{self.examples:,}"],
            ["steps", f"{self.steps:,}"],
            ["hours", "unknown" if self.hours is None else f"{self.hours:.2g}"],
            ["calls of the teacher", f"{self.teacher_calls:,}"],
        ]


def plan_training(
    config: TrainingConfig, examples: int, *, seconds_per_step: float | None = None, teacher_calls: int = 0
) -> TrainingPlan:
    """The plan of a run on so many examples; `measure_step` gives the seconds of a step."""
    from knowgap.compiling.training.trainer import process_count

    steps = config.steps(examples, process_count())
    hours = None if seconds_per_step is None else steps * seconds_per_step / 3600
    return TrainingPlan(examples, steps, hours, teacher_calls)
