"""Commands that improve programs: compile, calibrate, tune."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.cli.evaluate import metric_names, run_evaluation, score_rows, show_comparisons
from knowgap.errors import UsageError

if TYPE_CHECKING:
    import dspy

    from knowgap.compile import Tuning
    from knowgap.compile.data import Dataset
    from knowgap.programs.base import Program
    from knowgap.retrieval.passage import Retriever

__all__ = ["COMMANDS", "Job", "calibrate", "compile_", "run_study", "show_study", "tune"]

_TRAIN = o.QuestionOptions(split="train")


@o.grouped
def calibrate(
    *,
    chosen: o.ProgramOptions,
    source: o.IndexOptions,
    questions: o.QuestionOptions = _TRAIN,
    scorers: o.ScorerOptions,
    share: Annotated[float, typer.Option("--share", help="Share of questions with a passage above δ.")] = 0.8,
    seed: o.Seed = 0,
    as_json: o.Json = False,
) -> None:
    """Set the relevance threshold δ from the training questions (MIGRES, table 12)."""
    from knowgap.compile import calibrate

    dataset = factories.load_data(source, questions, seed)
    examples = dataset.questions(questions.split, questions.limit)
    with factories.open_index(source, dataset) as retriever, progress("calibrating δ") as report:
        program = factories.load_program(chosen, retriever, scorers)
        calibration = calibrate(program, examples, share=share, progress=report)
    if as_json:
        out.print_json(calibration.model_dump_json(exclude={"scores"}))
        return
    out.print(
        f"δ = {calibration.delta:.4f} on the scale of {calibration.reranker}: "
        f"{calibration.covered(calibration.delta):.0%} of {len(examples)} questions find a passage that scores as much",
        markup=False,
    )


@o.grouped
def compile_(
    *,
    context: typer.Context,
    chosen: o.ProgramOptions,
    source: o.IndexOptions,
    data: o.DataOptions,
    optimizer: Annotated[
        str,
        typer.Option(
            "--optimizer",
            help="study: demonstrations and hyperparameters together; or demonstrations alone, by a DSPy optimizer: "
            "see `knowgap ls optimizers`.",
        ),
    ] = "study",
    model: o.ModelOptions,
    scorers: o.ScorerOptions,
    teacher: Annotated[
        str | None, typer.Option("--teacher-lm", help="Language model that shows how, for demonstrations.")
    ] = None,
    run: o.RunOptions,
    study: o.StudyOptions,
) -> None:
    """Find the demonstrations and hyperparameters that serve best on the train and dev splits; score on test; save."""
    if optimizer != "study" and study.num_workers > 1:
        raise UsageError(
            f"--num-workers {study.num_workers}: workers share a study, and --optimizer {optimizer} is none"
        )
    with _open_job(chosen, source, data, model, scorers, run) as job:
        teacher_lm = factories.load_lm(teacher, model.api_base) if teacher else None
        if study.dry_run:
            _show_estimate(job, study, demos=True)
        elif optimizer == "study":
            _run_and_conclude(job, study, context.obj, teacher_lm=teacher_lm)
        else:
            _optimize_demonstrations(job, optimizer, teacher_lm)


@o.grouped
def tune(
    *,
    context: typer.Context,
    chosen: o.ProgramOptions,
    source: o.IndexOptions,
    data: o.DataOptions,
    model: o.ModelOptions,
    scorers: o.ScorerOptions,
    run: o.RunOptions,
    study: o.StudyOptions,
) -> None:
    """Find the hyperparameters that serve best on the dev split, with its demonstrations; score on test; save."""
    with _open_job(chosen, source, data, model, scorers, run, suffix="-tuned") as job:
        if study.dry_run:
            _show_estimate(job, study, demos=False)
        else:
            _run_and_conclude(job, study, context.obj, demos=None)


@dataclass(frozen=True)
class Job:
    """A program to improve, with what that takes, and the folder of the outcome."""

    program: Program
    dataset: Dataset
    lm: dspy.LM
    retriever: Retriever
    folder: Path
    metrics: list[str]
    limit: int | None = None
    seed: int = 0
    num_threads: int = 4

    @property
    def train(self) -> list[dspy.Example]:
        """The training questions, of which there may be none."""
        return list(self.dataset.splits["train"])[: self.limit]

    @property
    def dev(self) -> list[dspy.Example]:
        """The dev questions."""
        return self.dataset.questions("dev", self.limit)


@contextmanager
def _open_job(
    chosen: o.ProgramOptions,
    source: o.IndexOptions,
    data: o.DataOptions,
    model: o.ModelOptions,
    scorers: o.ScorerOptions,
    run: o.RunOptions,
    suffix: str = "",
) -> Iterator[Job]:
    dataset = factories.load_data(source, data, run.seed)
    metrics = metric_names(run.metric)
    lm = factories.load_lm(model.lm, model.api_base)
    with factories.open_index(source, dataset) as retriever:
        program = factories.load_program(chosen, retriever, scorers)
        folder = run.output_dir or Path(f"{program.name}-{dataset.name}{suffix}")
        yield Job(program, dataset, lm, retriever, folder, metrics, data.limit, run.seed, run.num_threads)


def _optimize_demonstrations(job: Job, optimizer: str, teacher_lm: dspy.LM | None) -> None:
    """Find demonstrations by one of DSPy's optimizers, and conclude."""
    from knowgap.compile import compile_program

    with progress(f"finding demonstrations ({optimizer})") as report:
        compiled = compile_program(
            job.program,
            job.dataset.questions("train", job.limit),
            valset=job.dev,
            metric=job.metrics[0],
            optimizer=optimizer,
            lm=job.lm,
            teacher_lm=teacher_lm,
            seed=job.seed,
            num_threads=job.num_threads,
            progress=report,
        )
    remark(f"{sum(len(predictor.demos) for predictor in compiled.predictors())} demonstrations")
    _conclude(job, compiled)


def _run_and_conclude(job: Job, study: o.StudyOptions, command: Sequence[str] | None, **options: Any) -> None:
    """Run the study; then show it and conclude, unless this process is a worker that only shares its trials."""
    from knowgap.compile.study.local_processes import is_local_worker

    tuned = run_study(job, study, command, **options)
    if not is_local_worker():
        show_study(job.program, tuned)
        _conclude(job, tuned.program, tuned.spent.model_dump())


def run_study(job: Job, study: o.StudyOptions, command: Sequence[str] | None = None, **options: Any) -> Tuning[Program]:
    """Run `knowgap.tune` on the train and dev splits, with a progress bar; keep the study in the job's folder.

    Args:
        job: the program and its data.
        study: the options of the study.
        command: the command line of this process. Other workers run it and share the trials: it must lead to this call.
        options: other arguments of `knowgap.tune`.
    """
    from knowgap.compile import Budget, tune
    from knowgap.compile.study.local_processes import local_workers
    from knowgap.compile.study.trials import choose, finished

    name = f"{job.program.name}-{job.dataset.name}"
    budget = Budget(
        calls=study.max_calls,
        tokens=study.max_tokens,
        money=study.max_money,
        seconds=study.timeout,
        prices=study.prices,
    )
    job.folder.mkdir(parents=True, exist_ok=True)
    with (
        progress(f"tuning {job.program.name} on {job.dataset.name}/dev") as report,
        local_workers(study.num_workers - 1, command) as problems,
    ):
        tuned = tune(
            job.program,
            devset=job.dev,
            trainset=job.train,
            metric=job.metrics[0],
            n_trials=study.n_trials,
            study_name=study.study_name or name,
            storage=study.storage or str(job.folder / "study.db"),
            seed=job.seed,
            lm=job.lm,
            num_threads=job.num_threads,
            budget=budget,
            progress=report,
            prune=study.prune,
            mode=study.mode,
            cost=study.cost,
            rule=study.rule,
            cache_dir=factories.cache_folder(),
            **options,
        )
    for problem in problems:
        remark(f"a worker gave up, the others did its trials: {problem}")
    if study.num_workers == 1:
        return tuned
    trials = finished(tuned.study)  # if a limit ended the study here, other workers may have finished trials since
    best = choose(trials, study.rule, tuned.cost)
    return replace(tuned, trials=trials, best=best, program=tuned.program_of(best))


def _show_estimate(job: Job, study: o.StudyOptions, *, demos: bool) -> None:
    """Show what a study would cost at most."""
    from knowgap.compile import estimate_study

    estimate = estimate_study(
        job.program,
        devset=job.dev,
        trainset=job.train,
        n_trials=study.n_trials,
        lm=job.lm,
        demos=demos,
        prices=study.prices,
        seed=job.seed,
    )
    rows = [[name.replace("_", " "), "unknown" if value is None else value] for name, value in estimate]
    show_table(f"what the study would cost at most with {job.lm.model}", ["", "estimate"], rows)


def show_study(before: Program, tuned: Tuning[Program]) -> None:
    """Show the best trials of a study, what they changed, and what the study cost."""
    complete = sorted((trial for trial in tuned.trials if trial.complete), key=lambda trial: -trial.score)
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
    show_table(title, ["trial", "kind", f"dev {tuned.metric}", "LM calls", "changed"], rows)
    importances = [[name, f"{importance:.2f}"] for name, importance in list(tuned.importances().items())[:6]]
    if importances:
        show_table("what decides the score", ["parameter", "importance"], importances)
    calls = tuned.calls
    out.print(
        f"{calls.spent} LM calls; {calls.without_sharing} without sharing answers between trials, "
        f"{calls.without_pruning} without stopping bad trials early as well; ended by: {tuned.stopped}",
        markup=False,
    )


def _format_value(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _conclude(job: Job, improved: Program, spent: dict[str, Any] | None = None) -> None:
    """Score both programs on dev and on the held-out test split, show the scores, and save the improved program."""
    from knowgap.compile import save_artifact

    evaluations = {}
    for split, meaning in (("dev", "the split it was chosen on"), ("test", "held out: no choice was made on it")):
        results = {}
        for label, program in (("before", job.program), ("after", improved)):
            results[label] = run_evaluation(
                program,
                job.dataset,
                split,
                job.metrics,
                label=f"{program.name} {label}",
                limit=job.limit,
                lm=job.lm,
                num_threads=job.num_threads,
                seed=job.seed,
                traces=True,
            )
            evaluations[f"{split} {label}"] = results[label]
            results[label].save(job.folder / "evaluations" / f"{split} {label}.json")
        show_table(*score_rows(f"{job.dataset.name}, {split} split ({meaning})", results))
        show_comparisons(results, job.metrics[0])
    folder = save_artifact(
        improved,
        job.folder / "artifact",
        lm=job.lm,
        index=job.retriever,
        data=job.dataset,
        evaluations=evaluations,
        cost=spent,
    )
    out.print(f"saved in {folder}", markup=False)


COMMANDS = {"compile": compile_, "calibrate": calibrate, "tune": tune}
