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
        built,
        opened,
        split,
        _metrics(metric),
        model,
        num_threads,
        seed,
        limit=limit,
        output=output,
        traces=output_dir is not None,
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
    traces: bool = False,
) -> Any:
    """`knowgap.evaluate` on a split, with a progress bar; on the test split by the way that counts as a test."""
    from knowgap.compile import evaluate as run
    from knowgap.compile import evaluate_on_test

    examples = workbench.split_of(opened, split, limit)
    with progress(what or f"{built.name} on {opened.name}/{split}") as report:
        shared = {"lm": model, "num_threads": num_threads, "seed": seed, "output": output, "progress": report}
        shared["traces"] = traces
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
            built,
            opened,
            split,
            metrics,
            model,
            num_threads,
            seed,
            limit=limit,
            output=output,
            what=label,
            traces=output_dir is not None,
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
        rows.append([f"{name} − {base_name}", interval, c.wins, c.losses, c.ties, _p(c.p_value)])
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
    artifact: o.Artifact = None,
    data: o.Data = "sample",
    corpus: o.Corpus = None,
    folder: o.Index = None,
    engine: o.Engine = "colbert",
    optimizer: Annotated[
        str,
        typer.Option(
            "--optimizer",
            help="study: demonstrations and hyperparameters together; or demonstrations alone, by a DSPy optimizer: "
            "see `knowgap ls optimizers`.",
        ),
    ] = "study",
    lm: o.Lm = None,
    api_base: o.ApiBase = None,
    teacher: o.Teacher = None,
    preset: o.Preset = None,
    settings: o.Settings = None,
    metric: o.Metric = None,
    limit: o.Limit = None,
    n_trials: o.Trials = 20,
    study_name: o.StudyName = None,
    storage: o.Storage = None,
    mode: o.Mode = "single",
    cost: o.Cost = "lm_calls",
    rule: o.Rule = "best",
    prune: o.Prune = True,
    max_calls: o.MaxCalls = None,
    max_tokens: o.MaxTokens = None,
    max_money: o.MaxMoney = None,
    timeout: o.Timeout = None,
    prices: o.Prices = None,
    dry_run: o.DryRun = False,
    seed: o.Seed = 0,
    num_threads: o.Threads = 4,
    output_dir: o.OutputDir = None,
) -> None:
    """Find the demonstrations and hyperparameters that serve best on the train and dev splits; score on test; save."""
    opened = workbench.open_data(data, corpus=corpus, seed=seed)
    metrics = _metrics(metric)
    model = load_lm(lm, api_base)
    helper = workbench.language_model(teacher, api_base) if teacher else None
    retriever = _retriever(folder, opened, engine)
    built = load_program(program, artifact, retriever, preset, settings)
    target = output_dir or Path(f"{built.name}-{opened.name}")
    if dry_run:
        show_estimate(built, opened, model, n_trials, limit, prices, seed, demos=True)
        return
    if optimizer == "study":
        limits = {"calls": max_calls, "tokens": max_tokens, "money": max_money, "seconds": timeout, "prices": prices}
        tuned = run_study(
            built,
            opened,
            metrics[0],
            model,
            target,
            limit=limit,
            limits=limits,
            n_trials=n_trials,
            study_name=study_name,
            storage=storage,
            seed=seed,
            num_threads=num_threads,
            teacher_lm=helper,
            mode=mode,
            cost=cost,
            rule=rule,
            prune=prune,
        )
        show_study(built, tuned)
        compiled, spent = tuned.program, tuned.spent.model_dump()
    else:
        from knowgap.compile import compile_program

        train, dev = workbench.split_of(opened, "train", limit), workbench.split_of(opened, "dev", limit)
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
        remark(f"{sum(len(p.demos) for p in compiled.predictors())} demonstrations")
        spent = None
    conclude(built, compiled, opened, metrics, model, num_threads, seed, target, retriever, limit, spent)


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
    mode: o.Mode = "single",
    cost: o.Cost = "lm_calls",
    rule: o.Rule = "best",
    prune: o.Prune = True,
    max_calls: o.MaxCalls = None,
    max_tokens: o.MaxTokens = None,
    max_money: o.MaxMoney = None,
    timeout: o.Timeout = None,
    prices: o.Prices = None,
    dry_run: o.DryRun = False,
    seed: o.Seed = 0,
    num_threads: o.Threads = 4,
    output_dir: o.OutputDir = None,
) -> None:
    """Find the hyperparameters that serve best on the dev split, with its demonstrations; score on test; save."""
    opened = workbench.open_data(data, corpus=corpus, seed=seed)
    metrics = _metrics(metric)
    model = load_lm(lm, api_base)
    retriever = _retriever(folder, opened, engine)
    built = load_program(program, artifact, retriever, preset, settings)
    target = output_dir or Path(f"{built.name}-{opened.name}-tuned")
    if dry_run:
        show_estimate(built, opened, model, n_trials, limit, prices, seed, demos=False)
        return
    limits = {"calls": max_calls, "tokens": max_tokens, "money": max_money, "seconds": timeout, "prices": prices}
    tuned = run_study(
        built,
        opened,
        metrics[0],
        model,
        target,
        limit=limit,
        limits=limits,
        n_trials=n_trials,
        study_name=study_name,
        storage=storage,
        seed=seed,
        num_threads=num_threads,
        mode=mode,
        cost=cost,
        rule=rule,
        prune=prune,
        demos=None,
    )
    show_study(built, tuned)
    spent = tuned.spent.model_dump()
    conclude(built, tuned.program, opened, metrics, model, num_threads, seed, target, retriever, limit, spent)


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
    **options: Any,
) -> Any:
    """`knowgap.tune` on the train and dev splits, with a progress bar; the study is kept in the `target` folder."""
    from knowgap.compile import Budget
    from knowgap.compile import tune as run

    train = list(opened.splits["train"])[:limit]
    dev = workbench.split_of(opened, "dev", limit)
    target.mkdir(parents=True, exist_ok=True)
    with progress(f"tuning {built.name} on {opened.name}/dev") as report:
        return run(
            built,
            devset=dev,
            trainset=train,
            metric=metric,
            study_name=study_name or f"{built.name}-{opened.name}",
            storage=storage or str(target / "study.db"),
            lm=model,
            budget=Budget(**(limits or {})),
            cache_dir=workbench.cache_folder(),
            progress=report,
            **options,
        )


def show_estimate(
    built: Any,
    opened: Any,
    model: Any,
    n_trials: int,
    limit: int | None,
    prices: tuple[float, float] | None,
    seed: int,
    *,
    demos: bool,
) -> None:
    """What a study would cost at most, before anything is spent."""
    from knowgap.compile.estimating import estimate_study

    found = estimate_study(
        built,
        devset=workbench.split_of(opened, "dev", limit),
        trainset=list(opened.splits["train"])[:limit],
        n_trials=n_trials,
        lm=model,
        demos=demos,
        prices=prices,
        seed=seed,
    )
    rows = [[name.replace("_", " "), "unknown" if value is None else value] for name, value in found]
    show_table(f"what the study would cost at most with {model.model}", ["", "estimate"], rows)


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


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _value(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


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
    spent: dict[str, Any] | None = None,
) -> list[tuple[str, Any]]:
    """Score before and after on dev and on the held-out test split, show both, and save the artifact."""
    from knowgap.compile import save_artifact

    evaluations = {}
    tests: list[tuple[str, Any]] = []
    for split in ("dev", "test"):
        results = []
        for label, built in (("before", before), ("after", after)):
            what = f"{built.name} {label}, {split}"
            result = run_evaluation(
                built, opened, split, metrics, model, num_threads, seed, limit=limit, what=what, traces=True
            )
            result.save(target / "evaluations" / f"{split} {label}.json")
            results.append((label, result))
            evaluations[f"{split} {label}"] = result
        seen = "the split it was chosen on" if split == "dev" else "held out: no choice was made on it"
        show_table(*score_rows(f"{opened.name}, {split} split ({seen})", results))
        show_comparisons(results, metrics[0])
        tests = results
    folder = save_artifact(
        after, target / "artifact", lm=model, index=retriever, data=opened, evaluations=evaluations, cost=spent
    )
    out.print(f"saved in {folder}", markup=False)
    return tests


def _metrics(names: list[str] | None) -> list[str]:
    from knowgap.compile.metrics import get_metric

    for name in names or ():
        get_metric(name)
    return list(names or DEFAULT_METRICS)


def _retriever(folder: str | None, opened: Any, engine: str) -> Any:
    with progress(f"indexing {opened.name}") as report:
        return workbench.open_retriever(folder, opened, engine=engine, progress=report)


COMMANDS = {"eval": evaluate, "compare": compare, "compile": compile_, "calibrate": calibrate, "tune": tune}
