"""Commands that measure: eval, compare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.basic import load_lm, load_program, open_index
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.errors import UsageError

__all__ = [
    "COMMANDS",
    "compare",
    "evaluate",
    "metric_names",
    "run_evaluation",
    "score_rows",
    "show_comparisons",
]

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
    quality: o.Quality = None,
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
    opened = factories.open_data(data, corpus=corpus, seed=seed, whole=split if whole else None)
    opened.questions(split, limit)
    model = load_lm(lm, api_base)
    retriever = open_index(folder, opened, engine, quality)
    built = load_program(program, artifact, retriever, preset, settings, reranker, entailment)
    output = output_dir / f"{built.name}-{opened.name}-{split}.jsonl" if output_dir else None
    result = run_evaluation(
        built,
        opened,
        split,
        metric_names(metric),
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
    """Evaluate a program on a split, with a progress bar."""
    from knowgap.compile.evaluation.evaluator import evaluate_split

    with progress(what or f"{built.name} on {opened.name}/{split}") as report:
        return evaluate_split(
            built,
            opened,
            split,
            metrics,
            limit=limit,
            lm=model,
            num_threads=num_threads,
            seed=seed,
            output=output,
            progress=report,
            traces=traces,
        )


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
    quality: o.Quality = None,
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
    opened = factories.open_data(data, corpus=corpus, seed=seed, whole=split if whole else None)
    examples = opened.questions(split, limit)
    metrics = metric_names(metric)
    model = load_lm(lm, api_base)
    retriever = open_index(folder, opened, engine, quality)
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


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def metric_names(names: list[str] | None) -> list[str]:
    """The metrics of the options, known to exist; the usual ones where none was named."""
    from knowgap.compile.evaluation.metrics import get_metric

    for name in names or ():
        get_metric(name)
    return list(names or DEFAULT_METRICS)


COMMANDS = {"eval": evaluate, "compare": compare}
