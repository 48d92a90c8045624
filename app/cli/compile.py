"""Commands that improve: compile, calibrate, tune."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.basic import load_lm, load_program, open_index
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.cli.evaluate import metric_names, run_evaluation, score_rows, show_comparisons
from knowgap.errors import UsageError

__all__ = ["COMMANDS", "calibrate", "compile_", "run_study", "show_study", "tune"]


def calibrate(
    program: o.Program = "migres",
    data: o.Data = "sample",
    corpus: o.Corpus = None,
    split: o.Split = "train",
    limit: o.Limit = None,
    folder: o.Index = None,
    engine: o.Engine = "colbert",
    quality: o.Quality = None,
    reranker: o.Reranker = None,
    share: Annotated[float, typer.Option("--share", help="Share of questions with a passage above δ.")] = 0.8,
    seed: o.Seed = 0,
    as_json: o.Json = False,
) -> None:
    """Set the relevance threshold δ from the training questions (MIGRES, table 12)."""
    from knowgap.compile import calibrate as run

    opened = factories.open_data(data, corpus=corpus, seed=seed)
    examples = opened.questions(split, limit)
    retriever = open_index(folder, opened, engine, quality)
    built = load_program(program, None, retriever, reranker=reranker)
    with progress("calibrating δ") as report:
        found = run(built, examples, share=share, progress=report)
    if as_json:
        out.print_json(found.model_dump_json(exclude={"scores"}))
        return
    out.print(
        f"δ = {found.delta:.4f} on the scale of {found.reranker}: {found.covered(found.delta):.0%} of {len(examples)} "
        "questions find a passage that scores as much",
        markup=False,
    )


@o.grouped
def compile_(
    *,
    context: typer.Context,
    subject: o.Subject,
    optimizer: Annotated[
        str,
        typer.Option(
            "--optimizer",
            help="study: demonstrations and hyperparameters together; or demonstrations alone, by a DSPy optimizer: "
            "see `knowgap ls optimizers`.",
        ),
    ] = "study",
    model: o.Model,
    teacher: o.Teacher = None,
    search: o.Search,
) -> None:
    """Find the demonstrations and hyperparameters that serve best on the train and dev splits; score on test; save."""
    if optimizer != "study" and search.num_workers > 1:
        raise UsageError(
            f"--num-workers {search.num_workers}: workers share a study, and --optimizer {optimizer} is none"
        )
    job = _open(subject, model, search)
    helper = factories.language_model(teacher, model.api_base) if teacher else None
    if search.dry_run:
        show_estimate(job, search, demos=True)
        return
    if optimizer == "study":
        _study(job, search, context.obj, teacher_lm=helper)
        return
    from knowgap.compile import compile_program

    train, dev = (job.opened.questions(split, search.limit) for split in ("train", "dev"))
    with progress(f"finding demonstrations ({optimizer})") as report:
        compiled = compile_program(
            job.built,
            train,
            valset=dev,
            metric=job.metrics[0],
            optimizer=optimizer,
            lm=job.model,
            teacher_lm=helper,
            seed=search.seed,
            num_threads=search.num_threads,
            progress=report,
        )
    remark(f"{sum(len(p.demos) for p in compiled.predictors())} demonstrations")
    conclude(job, search, compiled)


@o.grouped
def tune(*, context: typer.Context, subject: o.Subject, model: o.Model, search: o.Search) -> None:
    """Find the hyperparameters that serve best on the dev split, with its demonstrations; score on test; save."""
    job = _open(subject, model, search, suffix="-tuned")
    if search.dry_run:
        show_estimate(job, search, demos=False)
        return
    _study(job, search, context.obj, demos=None)


@dataclass(frozen=True)
class Job:
    """What is improved, on what and by what, and the folder that the outcome goes to."""

    built: Any
    opened: Any
    metrics: list[str]
    model: Any
    retriever: Any
    target: Path


def _open(subject: o.Subject, model: o.Model, search: o.Search, suffix: str = "") -> Job:
    opened = factories.open_data(subject.data, corpus=subject.corpus, seed=search.seed)
    metrics = metric_names(search.metric)
    lm = load_lm(model.lm, model.api_base)
    retriever = open_index(subject.folder, opened, subject.engine, subject.quality)
    built = load_program(subject.program, subject.artifact, retriever, search.preset, search.settings)
    target = search.output_dir or Path(f"{built.name}-{opened.name}{suffix}")
    return Job(built, opened, metrics, lm, retriever, target)


def _study(job: Job, search: o.Search, command: Sequence[str] | None, **options: Any) -> None:
    """Run the study; then, unless this process only helps with its trials, show it and conclude."""
    from knowgap.compile.study.local_processes import is_local_worker

    tuned = run_study(
        job.built,
        job.opened,
        job.metrics[0],
        job.model,
        job.target,
        limit=search.limit,
        limits={
            "calls": search.max_calls,
            "tokens": search.max_tokens,
            "money": search.max_money,
            "seconds": search.timeout,
            "prices": search.prices,
        },
        num_workers=search.num_workers,
        command=command,
        n_trials=search.n_trials,
        study_name=search.study_name,
        storage=search.storage,
        seed=search.seed,
        num_threads=search.num_threads,
        mode=search.mode,
        cost=search.cost,
        rule=search.rule,
        prune=search.prune,
        **options,
    )
    if is_local_worker():
        return
    show_study(job.built, tuned)
    conclude(job, search, tuned.program, tuned.spent.model_dump())


def run_study(
    built: Any,
    opened: Any,
    metric: str,
    model: Any,
    target: Path,
    *,
    limit: int | None = None,
    limits: dict[str, Any] | None = None,
    study_name: str | None = None,
    storage: str | None = None,
    num_workers: int = 1,
    command: Sequence[str] | None = None,
    **options: Any,
) -> Any:
    """`knowgap.tune` on the train and dev splits, with a progress bar; the study is kept in the `target` folder.

    With more than one worker, the others run `command`, which has to lead to this very call: they share its trials.
    """
    from knowgap.compile import Budget
    from knowgap.compile import tune as run
    from knowgap.compile.study.local_processes import local_workers
    from knowgap.compile.study.trials import choose, finished

    train = list(opened.splits["train"])[:limit]
    dev = opened.questions("dev", limit)
    target.mkdir(parents=True, exist_ok=True)
    with (
        progress(f"tuning {built.name} on {opened.name}/dev") as report,
        local_workers(num_workers - 1, command) as problems,
    ):
        tuned = run(
            built,
            devset=dev,
            trainset=train,
            metric=metric,
            study_name=study_name or f"{built.name}-{opened.name}",
            storage=storage or str(target / "study.db"),
            lm=model,
            budget=Budget(**(limits or {})),
            cache_dir=factories.cache_folder(),
            progress=report,
            **options,
        )
    for problem in problems:
        remark(f"a worker gave up, the others did its trials: {problem}")
    if num_workers == 1:
        return tuned
    trials = finished(tuned.study)  # where a limit ended the study, the others may have finished theirs after this one
    best = choose(trials, options.get("rule", "best"), tuned.cost)
    return replace(tuned, trials=trials, best=best, program=tuned.program_of(best))


def show_estimate(job: Job, search: o.Search, *, demos: bool) -> None:
    """What a study would cost at most, before anything is spent."""
    from knowgap.compile.study.estimate import estimate_study

    found = estimate_study(
        job.built,
        devset=job.opened.questions("dev", search.limit),
        trainset=list(job.opened.splits["train"])[: search.limit],
        n_trials=search.n_trials,
        lm=job.model,
        demos=demos,
        prices=search.prices,
        seed=search.seed,
    )
    rows = [[name.replace("_", " "), "unknown" if value is None else value] for name, value in found]
    show_table(f"what the study would cost at most with {job.model.model}", ["", "estimate"], rows)


def show_study(before: Any, tuned: Any) -> None:
    """The best trials of a study, what they changed, and what the study cost."""
    complete = sorted((trial for trial in tuned.trials if trial.complete), key=lambda trial: -trial.score)
    rows = [
        [
            trial.number,
            trial.label + (" (chosen)" if trial.number == tuned.best.number else ""),
            f"{trial.score:.3f}",
            f"{trial.costs['lm_calls']:.1f}",
            ", ".join(f"{k}={_value(v)}" for k, v in trial.values.items() if v != getattr(before, k)) or "as before",
        ]
        for trial in complete[:5]
    ]
    title = f"the best of {len(tuned.trials)} trials ({len(complete)} complete, the others stopped early)"
    show_table(title, ["trial", "kind", f"dev {tuned.metric}", "LM calls", "changed"], rows)
    weights = tuned.importances()
    if weights:
        most = [[name, f"{weight:.2f}"] for name, weight in list(weights.items())[:6]]
        show_table("what decides the score", ["parameter", "importance"], most)
    calls = tuned.calls
    out.print(
        f"{calls.spent} LM calls; {calls.without_sharing} without sharing answers between trials, "
        f"{calls.without_pruning} without stopping bad trials early as well; ended by: {tuned.stopped}",
        markup=False,
    )


def _value(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def conclude(job: Job, search: o.Search, after: Any, spent: dict[str, Any] | None = None) -> None:
    """Score before and after on dev and on the held-out test split, show both, and save the artifact."""
    from knowgap.compile import save_artifact

    evaluations = {}
    for split in ("dev", "test"):
        results = []
        for label, built in (("before", job.built), ("after", after)):
            result = run_evaluation(
                built,
                job.opened,
                split,
                job.metrics,
                job.model,
                search.num_threads,
                search.seed,
                limit=search.limit,
                what=f"{built.name} {label}, {split}",
                traces=True,
            )
            result.save(job.target / "evaluations" / f"{split} {label}.json")
            results.append((label, result))
            evaluations[f"{split} {label}"] = result
        seen = "the split it was chosen on" if split == "dev" else "held out: no choice was made on it"
        show_table(*score_rows(f"{job.opened.name}, {split} split ({seen})", results))
        show_comparisons(results, job.metrics[0])
    folder = save_artifact(
        after,
        job.target / "artifact",
        lm=job.model,
        index=job.retriever,
        data=job.opened,
        evaluations=evaluations,
        cost=spent,
    )
    out.print(f"saved in {folder}", markup=False)


COMMANDS = {"compile": compile_, "calibrate": calibrate, "tune": tune}
