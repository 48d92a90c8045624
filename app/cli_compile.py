"""Commands that measure and improve: eval, compare, compile, calibrate, tune."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from knowgap import options as o
from knowgap import workbench
from knowgap.cli_basic import load_lm, load_program
from knowgap.display import out, progress, remark, show_table
from knowgap.errors import UsageError

__all__ = ["COMMANDS", "calibrate", "compare", "compile_", "evaluate", "score_rows", "tune"]

DEFAULT_METRICS = ("f1", "exact_match")


def evaluate(
    program: o.Program = "migres",
    artifact: o.Artifact = None,
    data: o.Data = "sample",
    corpus: o.Corpus = None,
    split: o.Split = "test",
    whole: o.Whole = False,
    limit: o.Limit = None,
    folder: o.Index = None,
    engine: o.Engine = "colbert",
    lm: o.Lm = None,
    api_base: o.ApiBase = None,
    preset: o.Preset = None,
    settings: o.Settings = None,
    reranker: o.Reranker = None,
    entailment: o.Entailment = None,
    metric: o.Metric = None,
    seed: o.Seed = 0,
    num_threads: o.Threads = 4,
    output_dir: o.OutputDir = None,
    as_json: o.Json = False,
) -> None:
    """Score a program on a split: means with 95% intervals, costs, recall of the gold passages."""
    opened = workbench.open_data(data, corpus=corpus, seed=seed, whole=split if whole else None)
    workbench.split_of(opened, split, limit)
    model = load_lm(lm, api_base)
    retriever = _retriever(folder, opened, engine)
    built = load_program(program, artifact, retriever, preset, settings, reranker, entailment)
    output = output_dir / f"{built.name}-{opened.name}-{split}.jsonl" if output_dir else None
    result = run_evaluation(
        built, opened, split, _metrics(metric), model, num_threads, seed, limit=limit, output=output
    )
    if output_dir is not None:
        result.save(output_dir / f"{built.name}-{opened.name}-{split}.json")
        remark(f"written to {output_dir}")
    if as_json:
        out.print_json(json.dumps(summary(result)))
        return
    title = f"{opened.name}, {split} split, {len(result.records)} questions, {result.provenance.lm}"
    show_table(*score_rows(title, [(built.name, result)]))
    kinds = result.by_type()
    if len(kinds) > 1:
        rows = [[kind or "(none)", interval.n, str(interval)] for kind, interval in kinds.items()]
        show_table("by type of question", ["type", "questions", result.metrics[0]], rows)
    for record in result.failures[:3]:
        remark(f"failed: {record.id}: {record.error}")


def summary(result: Any) -> dict[str, Any]:
    """An evaluation in a few numbers: means, intervals, costs and what stands behind them."""
    return {**result.summary(), "provenance": result.provenance.model_dump(mode="json")}


def run_evaluation(
    built: Any,
    opened: Any,
    split: str,
    metrics: Any,
    model: Any,
    num_threads: int,
    seed: int,
    *,
    limit: int | None = None,
    output: Path | None = None,
    what: str | None = None,
) -> Any:
    """`knowgap.evaluate` on a split, with a progress bar; on the test split by the way that counts as a test."""
    from knowgap.compile import evaluate as run
    from knowgap.compile import evaluate_on_test

    examples = workbench.split_of(opened, split, limit)
    with progress(what or f"{built.name} on {opened.name}/{split}") as report:
        shared = {"lm": model, "num_threads": num_threads, "seed": seed, "output": output, "progress": report}
        if split == "test":
            return evaluate_on_test(built, opened, metrics, limit=limit, **shared)
        origin = {"dataset": opened.name, "dataset_fingerprint": opened.fingerprint}
        return run(built, examples, metrics, split=split, provenance=origin, **shared)


def score_rows(title: str, results: list[tuple[str, Any]]) -> tuple[str, list[str], list[list[str]]]:
    """Title, columns and rows of a table of evaluations: scores with intervals, then costs per question."""
    metrics = list(dict.fromkeys(name for _, result in results for name in result.all_metrics))
    rows = []
    for name, result in results:
        costs = result.costs()
        rows.append(
            [
                name,
                *(str(result.interval(metric)) if metric in result.all_metrics else "" for metric in metrics),
                *(f"{costs[key]:.1f}" for key in ("lm_calls", "iterations", "passages")),
                f"{costs['tokens']:.0f}",
                str(len(result.failures)),
            ]
        )
    columns = ["program", *metrics, "LM calls", "iterations", "passages", "tokens", "failed"]
    return title, columns, rows


def compare(
    programs: Annotated[
        str,
        typer.Option("--programs", help="Programs and artifact folders, separated by commas; the first is the base."),
    ] = "direct,rag,migres",
    data: o.Data = "sample",
    corpus: o.Corpus = None,
    split: o.Split = "test",
    whole: o.Whole = False,
    limit: o.Limit = None,
    folder: o.Index = None,
    engine: o.Engine = "colbert",
    lm: o.Lm = None,
    api_base: o.ApiBase = None,
    metric: o.Metric = None,
    seed: o.Seed = 0,
    num_threads: o.Threads = 4,
    output_dir: o.OutputDir = None,
    as_json: o.Json = False,
) -> None:
    """Score several programs on the same questions and test each against the first, question by question."""
    names = [name.strip() for name in programs.split(",") if name.strip()]
    if not names:
        raise UsageError("--programs is empty: name programs or artifact folders, separated by commas")
    opened = workbench.open_data(data, corpus=corpus, seed=seed, whole=split if whole else None)
    examples = workbench.split_of(opened, split, limit)
    metrics = _metrics(metric)
    model = load_lm(lm, api_base)
    retriever = _retriever(folder, opened, engine)
    results: list[tuple[str, Any]] = []
    for name in names:
        path = Path(name) if Path(name, "config.json").exists() else None
        built = load_program(name, path, retriever)
        label = path.name if path else name
        output = output_dir / f"{label}-{opened.name}-{split}.jsonl" if output_dir else None
        result = run_evaluation(
            built, opened, split, metrics, model, num_threads, seed, limit=limit, output=output, what=label
        )
        results.append((label, result))
        if output_dir is not None:
            result.save(output_dir / f"{label}-{opened.name}-{split}.json")
    if as_json:
        out.print_json(json.dumps({label: summary(result) for label, result in results}))
        return
    title = f"{opened.name}, {split} split, {len(examples)} questions, {results[0][1].provenance.lm}"
    show_table(*score_rows(title, results))
    show_comparisons(results, metrics[0])


def show_comparisons(results: list[tuple[str, Any]], metric: str) -> None:
    """Every evaluation against the first: difference with interval, wins and losses, p-value."""
    from knowgap.compile import compare as pair

    base_name, base = results[0]
    rows = []
    for name, result in results[1:]:
        c = pair(base, result, metric)
        interval = f"{c.difference:+.3f} [{c.low:+.3f}, {c.high:+.3f}]"
        rows.append([f"{name} − {base_name}", interval, c.wins, c.losses, c.ties, f"{c.p_value:.3f}"])
    if rows:
        columns = ["difference", f"{metric} [95% interval]", "wins", "losses", "ties", "p (paired)"]
        show_table("question by question", columns, rows)


def calibrate(
    program: o.Program = "migres",
    data: o.Data = "sample",
    corpus: o.Corpus = None,
    split: o.Split = "train",
    limit: o.Limit = None,
    folder: o.Index = None,
    engine: o.Engine = "colbert",
    reranker: o.Reranker = None,
    share: Annotated[float, typer.Option("--share", help="Share of questions with a passage above δ.")] = 0.8,
    seed: o.Seed = 0,
    as_json: o.Json = False,
) -> None:
    """Set the relevance threshold δ from the training questions (MIGRES, table 12)."""
    from knowgap.compile import calibrate as run

    opened = workbench.open_data(data, corpus=corpus, seed=seed)
    examples = workbench.split_of(opened, split, limit)
    retriever = _retriever(folder, opened, engine)
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


def compile_(
    program: o.Program = "migres",
    data: o.Data = "sample",
    corpus: o.Corpus = None,
    folder: o.Index = None,
    engine: o.Engine = "colbert",
    optimizer: Annotated[
        str, typer.Option("--optimizer", help="How demonstrations are found: see `knowgap ls optimizers`.")
    ] = "bootstrap",
    lm: o.Lm = None,
    api_base: o.ApiBase = None,
    teacher: Annotated[str | None, typer.Option("--teacher-lm", help="Language model that shows how.")] = None,
    preset: o.Preset = None,
    settings: o.Settings = None,
    metric: o.Metric = None,
    limit: o.Limit = None,
    seed: o.Seed = 0,
    num_threads: o.Threads = 4,
    output_dir: o.OutputDir = None,
) -> None:
    """Find demonstrations for a program on the train split; score before and after on dev and test; save it."""
    from knowgap.compile import compile_program

    opened = workbench.open_data(data, corpus=corpus, seed=seed)
    train, dev = workbench.split_of(opened, "train", limit), workbench.split_of(opened, "dev", limit)
    metrics = _metrics(metric)
    model = load_lm(lm, api_base)
    helper = workbench.language_model(teacher, api_base) if teacher else None
    retriever = _retriever(folder, opened, engine)
    built = load_program(program, None, retriever, preset, settings)
    with progress(f"finding demonstrations ({optimizer})") as report:
        compiled = compile_program(
            built,
            train,
            valset=dev,
            metric=metrics[0],
            optimizer=optimizer,
            lm=model,
            teacher_lm=helper,
            seed=seed,
            num_threads=num_threads,
            progress=report,
        )
    demos = sum(len(predictor.demos) for predictor in compiled.predictors())
    remark(f"{demos} demonstrations in {len(compiled.predictors())} predictors")
    target = output_dir or Path(f"{built.name}-{opened.name}")
    conclude(built, compiled, opened, metrics, model, num_threads, seed, target, retriever, limit)


def tune(
    program: o.Program = "migres",
    artifact: o.Artifact = None,
    data: o.Data = "sample",
    corpus: o.Corpus = None,
    folder: o.Index = None,
    engine: o.Engine = "colbert",
    lm: o.Lm = None,
    api_base: o.ApiBase = None,
    preset: o.Preset = None,
    settings: o.Settings = None,
    metric: o.Metric = None,
    limit: o.Limit = None,
    n_trials: o.Trials = 20,
    study_name: o.StudyName = None,
    storage: o.Storage = None,
    seed: o.Seed = 0,
    num_threads: o.Threads = 4,
    output_dir: o.OutputDir = None,
) -> None:
    """Search a program's hyperparameters on the dev split; score before and after on test; save the best."""
    opened = workbench.open_data(data, corpus=corpus, seed=seed)
    dev = workbench.split_of(opened, "dev", limit)
    metrics = _metrics(metric)
    model = load_lm(lm, api_base)
    retriever = _retriever(folder, opened, engine)
    built = load_program(program, artifact, retriever, preset, settings)
    target = output_dir or Path(f"{built.name}-{opened.name}-tuned")
    target.mkdir(parents=True, exist_ok=True)
    tuned = run_study(
        built, dev, metrics, model, n_trials, study_name, storage or str(target / "study.db"), seed, num_threads, opened
    )
    show_study(tuned)
    conclude(built, tuned.program, opened, metrics, model, num_threads, seed, target, retriever, limit)


def run_study(
    built: Any,
    dev: list[Any],
    metrics: list[str],
    model: Any,
    n_trials: int,
    study_name: str | None,
    storage: str,
    seed: int,
    num_threads: int,
    opened: Any,
) -> Any:
    """`knowgap.tune` with a progress bar."""
    import dspy

    from knowgap.compile import tune as run

    with progress(f"tuning {built.name} on {opened.name}/dev") as report, dspy.context(lm=model):
        return run(
            built,
            devset=dev,
            metric=metrics[0],
            n_trials=n_trials,
            study_name=study_name or f"{built.name}-{opened.name}",
            storage=storage,
            seed=seed,
            num_threads=num_threads,
            progress=report,
        )


def show_study(tuned: Any) -> None:
    """The best trials of a study and what changed against the start."""
    rows = [[name, before, after] for name, (before, after) in tuned.changes().items()]
    if rows:
        show_table("hyperparameters that the study changed", ["hyperparameter", "before", "after"], rows)
    else:
        remark("no trial did better than the settings at the start: they stay")


def conclude(
    before: Any,
    after: Any,
    opened: Any,
    metrics: list[str],
    model: Any,
    num_threads: int,
    seed: int,
    target: Path,
    retriever: Any,
    limit: int | None = None,
) -> list[tuple[str, Any]]:
    """Score before and after on dev and on the held-out test split, show both, and save the artifact."""
    from knowgap.compile import save_artifact

    evaluations = {}
    tests: list[tuple[str, Any]] = []
    for split in ("dev", "test"):
        results = []
        for label, built in (("before", before), ("after", after)):
            what = f"{built.name} {label}, {split}"
            result = run_evaluation(built, opened, split, metrics, model, num_threads, seed, limit=limit, what=what)
            results.append((label, result))
            evaluations[f"{split} {label}"] = result
        seen = "the split it was chosen on" if split == "dev" else "held out: no choice was made on it"
        show_table(*score_rows(f"{opened.name}, {split} split ({seen})", results))
        show_comparisons(results, metrics[0])
        tests = results
    folder = save_artifact(after, target / "artifact", lm=model, index=retriever, data=opened, evaluations=evaluations)
    out.print(f"saved in {folder}", markup=False)
    return tests


def _metrics(names: list[str] | None) -> list[str]:
    from knowgap.compile.metrics import get_metric

    for name in names or ():
        get_metric(name)
    return list(names or DEFAULT_METRICS)


def _retriever(folder: Path | None, opened: Any, engine: str) -> Any:
    with progress(f"indexing {opened.name}") as report:
        return workbench.open_retriever(folder, opened, engine=engine, progress=report)


COMMANDS = {"eval": evaluate, "compare": compare, "compile": compile_, "calibrate": calibrate, "tune": tune}
