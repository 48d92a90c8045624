"""What `knowgap compile --optimizer finetune` does."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowgap.cli import factories
from knowgap.cli.display import progress
from knowgap.cli.training.options import remark_on, show_plan
from knowgap.errors import UnknownName, UsageError

if TYPE_CHECKING:
    import dspy

    from knowgap.cli.evaluate import Job
    from knowgap.compiling.training.config import TrainingConfig
    from knowgap.compiling.training.finetune import FinetunedProgram
    from knowgap.programs.base import Program

__all__ = ["finetune", "finetune_config"]


def finetune_config(settings: list[str] | None, seed: int) -> TrainingConfig:
    """The settings of the values of --train-option, over the defaults."""
    from knowgap.compiling.training.finetune import FINETUNE_CONFIG
    from knowgap.compiling.training.trainer import require_packages

    given: dict[str, Any] = {}
    names = [field.name for field in fields(FINETUNE_CONFIG)]
    for name, value in factories.named_values(settings, "--train-option").items():
        if name not in names:
            raise UnknownName.among("training option", name, names)
        try:
            given[name] = int(value) if value.lstrip("-").isdecimal() else float(value)
        except ValueError:
            raise UsageError(f"--train-option {name}={value}: write a number") from None
    config = replace(FINETUNE_CONFIG, **{"seed": seed, **given})
    require_packages(config)
    return config


def finetune(
    job: Job, program: Program, folder: Path, config: TrainingConfig, teacher_lm: dspy.LM | None
) -> FinetunedProgram | None:
    """Finetune the language model of a job on the training questions.

    In a dry run, show what that takes at most (if every question is answered rightly), and return None.
    """
    from knowgap.compiling.training.finetune import finetune_program, local_engine
    from knowgap.compiling.training.plan import plan_training

    local_engine(job.lm)
    if job.options.dry_run:
        calls = job.estimate(program, "train").calls
        show_plan(plan_training(config, calls, teacher_calls=calls), as_json=False)
        return None
    with progress("finetuning") as report:
        finetuned = finetune_program(
            program,
            job.dataset.questions("train", job.options.limit),
            folder / "model",
            metric=job.metrics[0],
            lm=job.lm,
            teacher_lm=teacher_lm,
            config=config,
            num_threads=job.options.num_threads,
            progress=report,
        )
    remark_on(finetuned.training)
    return finetuned
