"""Commands that improve programs: compile, calibrate, tune."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Context, Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.cli.evaluate import Job, open_job, show_estimates
from knowgap.cli.given import grouped, refuse
from knowgap.cli.running.saving import score_and_save
from knowgap.cli.training.finetune import finetune, finetune_config
from knowgap.errors import UnknownName, UsageError

if TYPE_CHECKING:
    import dspy

    from knowgap.compile import Budget, DemoConfig, StudyConfig, Tuning
    from knowgap.programs.base import Program

_OF_STUDIES = ("n_trials", "study_name", "storage", "mode", "cost", "rule", "prune", "max_calls", "max_tokens")
_OF_STUDIES += ("max_money", "timeout", "num_workers")

__all__ = ["COMMANDS", "calibrate", "compile_", "optimize_demonstrations", "run_study", "show_study", "tune"]


@dataclass(frozen=True)
class CalibrateOptions(o.SplitOptions, o.DataOptions, o.ProgramOptions):
    """A program, its index, and the questions that its δ is set from."""

    split: o.Split = "train"


@dataclass(frozen=True)
class CompileOptions(o.StudyOptions, o.ProgramOptions):
    """A program, and the study that improves it."""


@grouped
def calibrate(
    *,
    options: CalibrateOptions,
    share: Annotated[float, Option("--share", help="Share of questions with a passage above δ.")] = 0.8,
    as_json: o.Json = False,
) -> None:
    """Set the relevance threshold δ from the training questions (MIGRES, table 12)."""
    from knowgap.compile import calibrate

    program = factories.check_program(options)
    dataset = factories.load_data(options)
    examples = dataset.questions(options.split, options.limit)
    with factories.open_index(options, dataset) as retriever, progress("calibrating δ") as report:
        calibration = calibrate(program.make(retriever, None), examples, share=share, progress=report)
    if as_json:
        out.print_json(calibration.model_dump_json(exclude={"scores"}))
        return
    out.print(
        f"δ = {calibration.delta:.4f} on the scale of {calibration.reranker}: "
        f"{calibration.covered(calibration.delta):.0%} of {len(examples)} questions find a passage that scores as much",
        markup=False,
    )


@grouped
def compile_(
    *,
    context: Context,
    options: CompileOptions,
    optimizer: Annotated[
        str,
        Option(
            "--optimizer",
            help="study: demonstrations and hyperparameters together; demonstrations alone, by a DSPy optimizer: see "
            "`knowgap ls optimizers`; or finetune: the weights of a local model (--lm hf/…), on right runs.",
        ),
    ] = "study",
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
    from knowgap.compile import DemoConfig
    from knowgap.compile.demonstrations.optimizers import OPTIMIZERS

    if optimizer not in ("study", "finetune", *OPTIMIZERS):
        raise UnknownName.among("optimizer", optimizer, ["study", "finetune", *OPTIMIZERS])
    if optimizer in OPTIMIZERS and not OPTIMIZERS[optimizer].can_save:
        raise UsageError(f"--optimizer {optimizer} makes a program that cannot be saved: use it from Python")
    if teacher is not None and optimizer == "labeled":
        raise UsageError(f"--teacher-lm {teacher}: --optimizer labeled shows examples as they are, without a teacher")
    if optimizer != "study":
        refuse(_OF_STUDIES, f"goes with a study, and --optimizer {optimizer} is none")
    if optimizer != "finetune":
        refuse(["train_option"], "goes with --optimizer finetune")
    config = finetune_config(train_option, options.seed) if optimizer == "finetune" else None
    checked, teacher_lm = factories.check_program(options), None
    if teacher is not None:
        teacher_lm = factories.load_lm(teacher, options.api_base, options.lm_option, asks=not options.dry_run)
    if checked.generator is not None and (optimizer != "study" or teacher is not None):
        what = f"--optimizer {optimizer}" if optimizer != "study" else f"--teacher-lm {teacher}"
        raise UsageError(f"{what}: finds demonstrations, which a generator is not shown; `knowgap tune` tunes it")
    if optimizer == "study":
        _improve(options, DemoConfig(teacher_lm=teacher_lm), context.obj)
        return
    with open_job(options, "dev", [checked]) as job:
        program = checked.make(job.retriever, job.lm)
        folder = options.output_dir or Path(f"{program.name}-{job.dataset.name}")
        if config is not None:
            finetuned = finetune(job, program, folder, config, teacher_lm)
            if finetuned is not None:
                score_and_save(job, program, finetuned.program, folder, lm=finetuned.lm)
            return
        if options.dry_run:
            _show_estimate(job, program, options, optimizer=optimizer)
            return
        improved = optimize_demonstrations(job, program, optimizer, teacher_lm)
        score_and_save(job, program, improved, folder)


@grouped
def tune(*, context: Context, options: CompileOptions) -> None:
    """Find the hyperparameters that serve best on the dev split, with its demonstrations; score on test; save."""
    from knowgap.compile import DemoConfig

    _improve(options, DemoConfig(mode="none"), context.obj, suffix="-tuned")


def _improve(options: CompileOptions, demos: DemoConfig, command: Sequence[str] | None, suffix: str = "") -> None:
    """Run a study, show it and conclude; or only estimate it, or only share its trials as a worker."""
    from knowgap.compile.study.local_processes import is_local_worker

    checked = factories.check_program(options)
    _study_config(options)
    if checked.generator is not None:
        demos = demos.model_copy(update={"mode": "none"})
    with open_job(options, "dev", [checked]) as job:
        program = checked.make(job.retriever, job.lm)
        folder = options.output_dir or Path(f"{program.name}-{job.dataset.name}{suffix}")
        if options.dry_run:
            _show_estimate(job, program, options, demos=demos)
            return
        tuned = run_study(job, program, folder, options, command, demos=demos)
        if not is_local_worker():
            show_study(program, tuned)
            score_and_save(job, program, tuned.program, folder, tuned.spent.model_dump())


def optimize_demonstrations(job: Job, program: Program, optimizer: str, teacher_lm: dspy.LM | None = None) -> Program:
    """Find demonstrations by one of DSPy's optimizers."""
    from knowgap.compile import compile_program

    with progress(f"finding demonstrations ({optimizer})") as report:
        compiled = compile_program(
            program,
            job.dataset.questions("train", job.options.limit),
            valset=job.dataset.questions("dev", job.options.limit),
            metric=job.metrics[0],
            optimizer=optimizer,
            lm=job.lm,
            teacher_lm=teacher_lm,
            seed=job.options.seed,
            num_threads=job.options.num_threads,
            progress=report,
        )
    predictors = compiled.predictors()
    remark(f"{sum(len(predictor.demos) for predictor in predictors)} demonstrations in {len(predictors)} predictors")
    return compiled


def run_study(
    job: Job,
    program: Program,
    folder: Path,
    options: o.StudyOptions,
    command: Sequence[str] | None = None,
    *,
    demos: DemoConfig,
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> Tuning[Program]:
    """Run `knowgap.tune` on the train and dev splits, with a progress bar.

    The study is kept in `folder` if the options do not say where. `command` is the command line of this process: other
    workers run it and share the trials, so that it must lead to this call.
    """
    from knowgap.compile import tune
    from knowgap.compile.study.local_processes import local_workers

    config, budget = _study_config(options, ranges)
    folder.mkdir(parents=True, exist_ok=True)
    with (
        progress(f"tuning {program.name} on {job.dataset.name}/dev") as report,
        local_workers(options.num_workers - 1, command) as problems,
    ):
        tuned = tune(
            program,
            devset=job.dataset.questions("dev", options.limit),
            trainset=job.dataset.splits["train"][: options.limit],
            metric=job.metrics[0],
            n_trials=options.n_trials,
            study_name=options.study_name or f"{program.name}-{job.dataset.name}",
            storage=options.storage or str(folder / "study.db"),
            seed=options.seed,
            lm=job.lm,
            num_threads=options.num_threads,
            budget=budget,
            progress=report,
            study=config,
            demos=demos,
        )
    for problem in problems:
        remark(f"a worker gave up, the others did its trials: {problem}")
    return tuned.reread(options.rule) if options.num_workers > 1 else tuned  # the others may have finished trials since


def _study_config(
    options: o.StudyOptions, ranges: Mapping[str, tuple[float, float]] | None = None
) -> tuple[StudyConfig, Budget]:
    """How a study searches, and its limits; both are checked."""
    from knowgap.compile import Budget, StudyConfig

    if options.mode == "pareto" and options.prune:
        refuse(["prune"], "--mode pareto stops no trial early")
    config = StudyConfig(
        mode=options.mode,
        cost=options.cost,
        rule=options.rule,
        prune=options.prune,
        ranges=dict(ranges or {}),
        cache_dir=factories.cache_folder(),
    )
    budget = Budget(
        calls=options.max_calls,
        tokens=options.max_tokens,
        money=options.max_money,
        seconds=options.timeout,
        prices=options.prices,
    )
    return config, budget


def _show_estimate(
    job: Job, program: Program, options: o.StudyOptions, *, demos: DemoConfig | None = None, optimizer: str = ""
) -> None:
    """Show what a study, or an optimizer, would cost at most, with the scores before and after."""
    from knowgap.compile.study.estimate import estimate_optimizer, estimate_study

    devset, limit = job.dataset.questions("dev", options.limit), options.limit
    sizes = {
        "devset": devset,
        "trainset": job.dataset.splits["train"][:limit],
        "scoring": 2 * (len(devset) + len(job.dataset.questions("test", limit))),
        "metrics": job.metrics,
        "lm": job.lm,
        "prices": options.prices,
        "seed": options.seed,
    }
    estimate = (
        estimate_optimizer(program, optimizer, **sizes)
        if optimizer
        else estimate_study(program, n_trials=options.n_trials, demos=demos, **sizes)
    )
    show_estimates({program.name: estimate}, job.lm)
    parts = [f"{estimate.trials} trials of {estimate.questions} dev questions"] if not optimizer else []
    parts += [f"{estimate.bootstrapping} for demonstrations", f"{estimate.scoring} for the scores before and after"]
    out.print(f"questions, at most: {', '.join(parts)}", markup=False)


def show_study(before: Program, tuned: Tuning[Program]) -> None:
    """Show the best trials of a study, what they changed, and what the study cost."""
    from knowgap.compile.evaluation.statistics import few_questions, mean_interval
    from knowgap.compile.study.trials import rank

    complete = sorted((trial for trial in tuned.trials if trial.complete), key=lambda trial: rank(trial, tuned.cost))
    rows = []
    for trial in complete[:5]:
        changed = {name: value for name, value in trial.values.items() if value != getattr(before, name)}
        rows.append(
            [
                trial.number,
                trial.label + (" (chosen)" if trial.number == tuned.best.number else ""),
                f"{trial.score:.3f}",
                f"{trial.costs['lm_calls']:.1f}",
                ", ".join(f"{name}={_format_value(value)}" for name, value in changed.items()) or "as before",
            ]
        )
    title = f"the best of {len(tuned.trials)} trials ({len(complete)} complete, the others stopped early)"
    caption = few_questions([mean_interval(tuned.best.scores, tuned.seed)])
    show_table(title, ["trial", "kind", f"dev {tuned.metric}", "LM calls", "changed"], rows, caption=caption)
    importances = list(tuned.importances().items())[:6]
    if importances:
        ranges = tuned.importance_ranges()
        rows = [[name, f"{share:.2f}", "{:.2f} to {:.2f}".format(*ranges[name])] for name, share in importances]
        columns = ["parameter", "importance", "with any one trial left out"]
        show_table(f"what decides the score, from {len(complete)} complete trials", columns, rows)
    calls = tuned.calls
    out.print(
        f"{calls.spent} LM calls; {calls.without_sharing} without sharing answers between trials, "
        f"{calls.without_pruning} without stopping bad trials early as well; ended by: {tuned.stopped}",
        markup=False,
    )


def _format_value(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


COMMANDS = {"compile": compile_, "calibrate": calibrate, "tune": tune}
