"""The command that improves programs: compile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Context, Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark
from knowgap.cli.evaluate import Job, open_job
from knowgap.cli.finetune import finetune, finetune_config
from knowgap.cli.running.saving import score_and_save
from knowgap.cli.running.study import run_study, show_estimate, show_study, study_config, study_label
from knowgap.errors import UnknownName, UsageError

if TYPE_CHECKING:
    import dspy

    from knowgap.programs.base import Program


@dataclass(frozen=True)
class CompileOptions(o.StudyOptions, o.ProgramsOptions):
    """A program, or several, and the study that improves them."""


@o.grouped
def compile_(
    *,
    context: Context,
    options: CompileOptions,
    optimizer: Annotated[
        str,
        Option(
            "--optimizer",
            help="study: demonstrations and hyperparameters together; demonstrations alone, by a DSPy optimizer: see "
            "`knowgap ls optimizers`; calibrate: the relevance threshold δ alone, from the training questions (MIGRES, "
            "table 12); or finetune: the weights of a local model (--lm hf/…), on right runs.",
        ),
    ] = "study",
    demos: Annotated[
        Literal["auto", "search", "none"],
        Option(
            "--demos",
            help="Whether a study searches demonstrations: search; none leaves those of the program alone; auto "
            "searches unless the embedded reader answers, which ignores them.",
        ),
    ] = "auto",
    share: Annotated[
        float, Option("--share", help="With --optimizer calibrate: the share of questions with a passage above δ.")
    ] = 0.8,
    teacher: Annotated[
        str | None, Option("--teacher-lm", help="Language model that shows how, for demonstrations and finetuning.")
    ] = None,
    train_option: Annotated[
        list[str] | None,
        Option(
            "--train-option",
            help="A setting of --optimizer finetune, as NAME=VALUE: epochs, learning_rate, batch_size, max_length, "
            "lora_rank, … Can be repeated.",
        ),
    ] = None,
) -> None:
    """Find the demonstrations and hyperparameters that serve best on the train and dev splits; score on test; save."""
    from knowgap.compiling.demonstrations.optimizers import OPTIMIZERS

    known = ["study", "calibrate", "finetune", *OPTIMIZERS]
    if optimizer not in known:
        raise UnknownName.among("optimizer", optimizer, known)
    if optimizer in OPTIMIZERS and not OPTIMIZERS[optimizer].can_save:
        raise UsageError(f"--optimizer {optimizer} makes a program that cannot be saved: use it from Python")
    if teacher is not None and optimizer == "labeled":
        raise UsageError(f"--teacher-lm {teacher}: --optimizer labeled shows examples as they are, without a teacher")
    if train_option and optimizer != "finetune":
        raise UsageError(f"--train-option {train_option[0]}: goes with --optimizer finetune, not with {optimizer}")
    config = finetune_config(train_option, options.seed) if optimizer == "finetune" else None
    several = len(factories.named_programs(options)) > 1
    if several and optimizer != "study":
        raise UsageError(f"--optimizer {optimizer}: compiles one program, and --program names several")
    if optimizer == "calibrate":
        _calibrate(options, share)
        return
    teacher_lm = None
    if teacher is not None:
        teacher_lm = factories.load_lm(teacher, options.api_base, options.lm_option, asks=not options.dry_run)
    if optimizer == "study":
        _improve(options, demos, context.obj, teacher_lm=teacher_lm)
        return
    checked = factories.check_program(options)
    if checked.generator is not None:
        raise UsageError(f"--optimizer {optimizer}: finds demonstrations, which a generator is not shown")
    with open_job(options, ("dev", "test"), [checked]) as job:
        program = checked.make(job.retriever, job.lm)
        folder = options.output_dir or Path(f"{program.name}-{job.dataset.name}")
        if config is not None:
            finetuned = finetune(job, program, folder, config, teacher_lm)
            if finetuned is not None:
                score_and_save(job, program, finetuned.program, folder, lm=finetuned.lm)
            return
        if options.dry_run:
            show_estimate(job, [program], options, "none", optimizer)
            return
        improved = optimize_demonstrations(job, program, optimizer, teacher_lm)
        score_and_save(job, program, improved, folder)


def _calibrate(options: CompileOptions, share: float) -> None:
    """Set δ from the training questions, show it, and save the program with it; no language model is asked."""
    from knowgap.compiling import compile, save

    checked = factories.check_program(options)
    dataset = factories.load_data(options)
    with factories.open_index(options, dataset) as retriever:
        with progress("calibrating δ") as report:
            made = checked.make(retriever, None)
            found = compile(made, dataset, optimizer="calibrate", limit=options.limit, share=share, progress=report)
        folder = options.output_dir or Path(f"{made.name}-{dataset.name}")
        artifact = save(found.program, folder / "artifact", index=retriever, data=dataset)
    out.print(f"{found.summary}\nsaved in {artifact}", markup=False)


def _improve(
    options: CompileOptions,
    demos: str,
    command: Sequence[str] | None,
    teacher_lm: dspy.LM | None = None,
) -> None:
    """Run a study, show it and conclude; or only estimate it, or only share its trials as a worker."""
    from knowgap.compiling.study.local_processes import is_local_worker

    checked = [factories.check_program(each) for each in factories.named_programs(options).values()]
    study_config(options)
    if any(each.generator is not None for each in checked):
        demos = "none"
    with open_job(options, ("dev", "test"), checked) as job:
        programs = [each.make(job.retriever, job.lm) for each in checked]
        folder = options.output_dir or Path(f"{study_label(programs)}-{job.dataset.name}")
        if options.dry_run:
            show_estimate(job, programs, options, demos)
            return
        tuned = run_study(job, programs, folder, options, command, demos=demos, teacher_lm=teacher_lm)
        if is_local_worker():
            return
        show_study(tuned)
        compared = [each.row(tuned.metric) for each in tuned.by_program()] if len(programs) > 1 else []
        evaluations = score_and_save(
            job, programs[0], tuned.program, folder, tuned.spent.model_dump(), compared=compared
        )
        if len(programs) > 1:
            from knowgap.reports.report import write_report

            page = write_report(tuned, folder / "report.html", evaluations=evaluations, cost=study_config(options).cost)
            out.print(f"score against cost of all trials, as a picture: {page}", markup=False)


def optimize_demonstrations(job: Job, program: Program, optimizer: str, teacher_lm: dspy.LM | None = None) -> Program:
    """Find demonstrations by one of DSPy's optimizers."""
    from knowgap.compiling import compile

    with progress(f"finding demonstrations ({optimizer})") as report:
        compiled = compile(
            program,
            job.dataset,
            job.metrics[0],
            limit=job.options.limit,
            optimizer=optimizer,
            lm=job.lm,
            teacher_lm=teacher_lm,
            seed=job.options.seed,
            num_threads=job.options.num_threads,
            progress=report,
        )
    remark(compiled.summary)
    return compiled.program


COMMANDS = {"compile": compile_}
