"""The command that improves programs: compile."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Context, Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress
from knowgap.cli.evaluate import Job, open_job
from knowgap.cli.running.saving import score_and_save
from knowgap.cli.running.study import run_study, show_estimate, show_study, study_config
from knowgap.errors import UnknownName, UsageError

if TYPE_CHECKING:
    import dspy

    from knowgap.compiling import Compiled
    from knowgap.programs.base import Program

_WITHOUT_TEACHER = ("labeled", "calibrate", "reanchor")
_OF_STUDIES = ("study", "ranges", "study_name", "storage", "n_trials", "num_workers", "hold_out", "demos")


@dataclass(frozen=True)
class CompileOptions(o.StudyOptions):
    """A program, or several, and how it is improved."""

    optimizer: Annotated[
        str,
        Option(
            "--optimizer",
            help="study: demonstrations and hyperparameters together; demonstrations alone, by a DSPy optimizer: see "
            "`knowgap ls optimizers`; calibrate: the relevance threshold δ alone, from the training questions (MIGRES, "
            "table 12); or reanchor: the probabilities from which decisions count as a yes.",
        ),
    ] = "study"
    optimizer_option: Annotated[
        list[str] | None,
        Option(
            "--optimizer-option",
            rich_help_panel=o.STUDY,
            help="A setting of another optimizer than study, as NAME=VALUE: share (of calibrate: the share of "
            "questions with a passage above δ; 0.8), or an option of a DSPy optimizer by DSPy's name. Can be repeated.",
        ),
    ] = None
    demos: Annotated[
        Literal["auto", "search", "none"],
        Option(
            "--demos",
            rich_help_panel=o.STUDY,
            help="Whether a study searches demonstrations: search; none leaves those of the program alone; auto "
            "searches unless the embedded reader answers, which ignores them.",
        ),
    ] = "auto"
    hold_out: Annotated[
        int | None,
        Option(
            "--hold-out",
            min=0,
            help="Dev questions that a study does not see, on which its choice is tested: the program as it was is "
            "saved if the choice is not better. 0 saves the choice untested.",
            show_default="a third; 20 of 40 to 59; none of fewer than 40; and training questions besides",
        ),
    ] = None
    teacher: Annotated[
        str | None, Option("--teacher-lm", help="Language model that shows how, for demonstrations.")
    ] = None


@o.grouped
def compile_(*, context: Context, options: CompileOptions) -> None:
    """Find what serves a program best on the train and dev splits; score it on dev and test before and after; save it.

    Several programs are compared by one study. What it chooses is saved if it is better on questions that the study has
    not seen, else the program as it was.
    """
    from knowgap.compiling.compiler import WAYS
    from knowgap.compiling.demonstrations.optimizers import OPTIMIZERS
    from knowgap.compiling.study.run import study_label

    optimizer, teacher_lm = options.optimizer, None
    if optimizer not in (known := [*WAYS, *OPTIMIZERS]):
        raise UnknownName.among("optimizer", optimizer, known)
    if optimizer in OPTIMIZERS and not OPTIMIZERS[optimizer].can_save:
        raise UsageError(f"--optimizer {optimizer} makes a program that cannot be saved: use it from Python")
    if options.teacher is not None and optimizer in _WITHOUT_TEACHER:
        raise UsageError(f"--teacher-lm {options.teacher}: --optimizer {optimizer} uses no teacher; leave it out")
    settings = factories.named_values(options.optimizer_option, "--optimizer-option")
    if settings and optimizer == "study":
        raise UsageError("--optimizer-option does not apply to --optimizer study: set its options with --study")
    if optimizer != "study":
        _refuse_study_options(context, optimizer)
    study_config(options)
    checked = [factories.check_program(each) for each in factories.named_programs(options, searching=True).values()]
    generated = any(each.generator is not None for each in checked)
    if generated and optimizer in OPTIMIZERS:
        raise UsageError(f"--optimizer {optimizer} does not work with a generator, which reads no prompts: use study")
    if len(checked) > 1 and optimizer != "study":
        raise UsageError(f"--optimizer {optimizer} compiles one program, but --program names several: name one")
    if options.teacher is not None:
        teacher_lm = factories.load_lm(replace(options, lm=options.teacher), asks=not options.dry_run)
    with open_job(options, ("dev", "test"), checked) as job:
        programs = [each.make(job.retriever, job.lm, job.dataset.name) for each in checked]
        folder = options.output_dir or Path(f"{study_label([each.name for each in programs])}-{job.dataset.name}")
        demos = "none" if generated else options.demos
        if options.dry_run:
            show_estimate(job, programs, options, demos, optimizer, options.hold_out, teacher_lm)
        elif optimizer == "study":
            _study(job, programs, folder, options, context.obj, demos=demos, teacher_lm=teacher_lm)
        else:
            score_and_save(job, _optimize(job, programs[0], optimizer, teacher_lm, settings), folder)


def _refuse_study_options(context: Context, optimizer: str) -> None:
    """Refuse the options of a study, among them its limits on what is spent, with another optimizer."""
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if option.name in _OF_STUDIES and source is not None and source.name == "COMMANDLINE":
            raise UsageError(f"{option.opts[0]} applies only to a study: leave it out with --optimizer {optimizer}")


def _study(job: Job, programs: list[Program], folder: Path, options: CompileOptions, command: Any, **more: Any) -> None:
    """Run a study, show it, score and save what it found; or only share its trials as a worker."""
    from knowgap.compiling import Compiled
    from knowgap.compiling.compiler import check_choice
    from knowgap.compiling.deployment import split_off
    from knowgap.compiling.study.local_processes import is_local_worker
    from knowgap.reports.report import write_report

    dataset = job.dataset
    dev, train = dataset.questions("dev", options.limit), dataset.splits.get("train", [])[: options.limit]
    dev, train, held_out = split_off(dev, train, options.hold_out, options.seed)
    seen = replace(job, dataset=replace(dataset, splits={**dataset.splits, "dev": dev, "train": train}))
    tuned = run_study(seen, programs, folder, options, command, **more)
    if is_local_worker():
        return
    show_study(tuned)
    found = Compiled(tuned.program, next(iter(tuned.bases.values())), tuned, held_out)
    if options.hold_out != 0:
        with progress(f"testing the choice on {dataset.name}") as report:
            common = {"lm": job.lm, "seed": options.seed, "num_threads": options.num_threads}
            found = check_choice(found, dataset, job.metrics, progress=report, **common)
    scored = score_and_save(job, found, folder)
    if len(programs) > 1:
        page = write_report(
            tuned,
            folder / "report.html",
            evaluations=scored.evaluations,
            cost=tuned.cost,
            finding=str(scored.verdict or ""),
        )
        out.print(f"score against cost of all trials, as a picture: {page}", markup=False)


def _optimize(
    job: Job, program: Program, optimizer: str, teacher_lm: dspy.LM | None, settings: dict[str, str]
) -> Compiled[Program]:
    """Improve a program by another optimizer than a study."""
    from knowgap.compiling import compile

    with progress(f"{optimizer} on {job.dataset.name}") as report:
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
            **{name: _parse(text) for name, text in settings.items()},
        )
    out.print(compiled.summary, markup=False)
    return compiled


def _parse(text: str) -> Any:
    """Parse a JSON value such as a number; return other text as it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text
