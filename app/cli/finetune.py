"""What `knowgap compile --optimizer finetune` does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowgap.cli import factories
from knowgap.cli.display import progress, remark

if TYPE_CHECKING:
    import dspy

    from knowgap.cli.evaluate import Job
    from knowgap.compiling.training import TrainingConfig
    from knowgap.compiling.training.finetune import FinetunedProgram
    from knowgap.programs.base import Program


def finetune_config(settings: list[str] | None, seed: int) -> TrainingConfig:
    """The settings of the values of --train-option, over the defaults."""
    from knowgap.compiling.training.finetune import FinetuneConfig

    given: dict[str, Any] = factories.named_values(settings, "--train-option")
    return FinetuneConfig(**{"seed": seed, **given})


def finetune(
    job: Job, program: Program, folder: Path, config: TrainingConfig, teacher_lm: dspy.LM | None
) -> FinetunedProgram | None:
    """Finetune the language model of a job on the training questions.

    In a dry run, say what that takes at most (if every question is answered rightly), and return None.
    """
    from knowgap.compiling.training.finetune import finetune_program, local_engine

    local_engine(job.lm)
    if job.options.dry_run:
        calls = job.estimate(program, "train").calls
        remark(f"at most {calls:,} calls of the teacher, {calls:,} examples, {config.steps(calls):,} steps")
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
    remark(f"trained {finetuned.training.folder}: {finetuned.training.steps} steps")
    return finetuned
