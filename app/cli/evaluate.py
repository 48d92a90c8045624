"""Commands that measure: eval, compare."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.errors import UsageError

if TYPE_CHECKING:
    from knowgap.compile import Evaluation
    from knowgap.compile.data import Dataset
    from knowgap.programs.base import Program

__all__ = ["COMMANDS", "compare", "evaluate", "metric_names", "run_evaluation", "score_rows", "show_comparisons"]

_DEFAULT_METRICS = ("f1", "exact_match")


@o.grouped
def evaluate(
    *,
    chosen: o.ProgramOptions,
    source: o.IndexOptions,
    questions: o.QuestionOptions,
    model: o.ModelOptions,
    scorers: o.ScorerOptions,
    run: o.RunOptions,
    as_json: o.Json = False,
) -> None:
    """Score a program on a split: means with 95% intervals, costs, recall of the gold passages."""
    [(name, result)] = _evaluate_all({None: chosen}, source, questions, model, run, scorers).items()
    if as_json:
        out.print_json(json.dumps(_summarize(result)))
        return
    show_table(*score_rows(_title(result), {name: result}))
    kinds = result.by_type()
    if len(kinds) > 1:
        rows = [[kind or "(none)", interval.n, str(interval)] for kind, interval in kinds.items()]
        show_table("by type of question", ["type", "questions", result.metrics[0]], rows)
    for record in result.failures[:3]:
        remark(f"failed: {record.id}: {record.error}")


@o.grouped
def compare(
    *,
    programs: Annotated[
        str,
        typer.Option("--programs", help="Programs and artifact folders, separated by commas; the first is the base."),
    ] = "direct,rag,migres",
    source: o.IndexOptions,
    questions: o.QuestionOptions,
    model: o.ModelOptions,
    run: o.RunOptions,
    as_json: o.Json = False,
) -> None:
    """Score several programs on the same questions and test each against the first, question by question."""
    chosen: dict[str, o.ProgramOptions] = {}
    for name in filter(None, map(str.strip, programs.split(","))):
        is_artifact = Path(name, "config.json").exists()
        chosen[name] = o.ProgramOptions(artifact=Path(name)) if is_artifact else o.ProgramOptions(program=name)
    if not chosen:
        raise UsageError("--programs is empty: name programs or artifact folders, separated by commas")
    results = _evaluate_all(chosen, source, questions, model, run)
    if as_json:
        out.print_json(json.dumps({label: _summarize(result) for label, result in results.items()}))
        return
    first = next(iter(results.values()))
    show_table(*score_rows(_title(first), results))
    show_comparisons(results, first.metrics[0])


def _evaluate_all(
    chosen: Mapping[str, o.ProgramOptions] | Mapping[None, o.ProgramOptions],
    source: o.IndexOptions,
    questions: o.QuestionOptions,
    model: o.ModelOptions,
    run: o.RunOptions,
    scorers: o.ScorerOptions | None = None,
) -> dict[str, Evaluation]:
    """Score programs on the same questions.

    Args:
        chosen: the options of programs, by label; the label None stands for the program's own name.
        source: the index.
        questions: the questions.
        model: the language model.
        run: how to run and score; with a folder, answers, traces and scores are written there.
        scorers: the reranker and the entailment model of the programs.

    Returns:
        Evaluations by label.
    """
    split = questions.split
    dataset = factories.load_data(source, questions, run.seed)
    dataset.questions(split, questions.limit)  # a split without questions is refused before anything is loaded
    metrics = metric_names(run.metric)
    lm = factories.load_lm(model.lm, model.api_base)
    results: dict[str, Evaluation] = {}
    with factories.open_index(source, dataset) as retriever:
        for name, options in chosen.items():
            program = factories.load_program(options, retriever, scorers)
            label = name or program.name
            file_name = f"{label.strip('./').replace('/', '-')}-{dataset.name}-{split}"
            folder = run.output_dir
            results[label] = run_evaluation(
                program,
                dataset,
                split,
                metrics,
                label=label,
                limit=questions.limit,
                lm=lm,
                num_threads=run.num_threads,
                seed=run.seed,
                output=folder / f"{file_name}.jsonl" if folder else None,
                traces=folder is not None,
            )
            if folder:
                results[label].save(folder / f"{file_name}.json")
                remark(f"written to {folder / file_name}.json")
    return results


def run_evaluation(
    program: Program,
    dataset: Dataset,
    split: str,
    metrics: Sequence[str],
    *,
    label: str,
    limit: int | None = None,
    **options: Any,
) -> Evaluation:
    """Evaluate a program on a split, with a progress bar.

    Args:
        program: the program.
        dataset: the data set. Its test split goes through `evaluate_on_test`, which checks that it is held out.
        split: the split.
        metrics: names of metrics.
        label: the program's name in the progress bar.
        limit: the number of questions; None takes all.
        options: other arguments of `knowgap.evaluate`.
    """
    from knowgap.compile import evaluate, evaluate_on_test

    with progress(f"{label} on {dataset.name}/{split}") as report:
        if split == "test":
            return evaluate_on_test(program, dataset, metrics, limit=limit, progress=report, **options)
        return evaluate(
            program,
            dataset.questions(split, limit),
            metrics,
            split=split,
            provenance={"dataset": dataset.name, "dataset_fingerprint": dataset.fingerprint},
            progress=report,
            **options,
        )


def _summarize(result: Evaluation) -> dict[str, Any]:
    return {**result.summary(), "provenance": result.provenance.model_dump(mode="json")}


def _title(result: Evaluation) -> str:
    provenance: Any = result.provenance
    return f"{provenance.dataset}, {provenance.split} split, {len(result.records)} questions, {provenance.lm}"


def score_rows(title: str, results: Mapping[str, Evaluation]) -> tuple[str, list[str], list[list[str]]]:
    """Title, columns and rows of a table of evaluations: scores with intervals, then costs per question."""
    metrics = list(dict.fromkeys(name for result in results.values() for name in result.all_metrics))
    rows = []
    for label, result in results.items():
        costs = result.costs()
        rows.append(
            [
                label,
                *(str(result.interval(metric)) if metric in result.all_metrics else "" for metric in metrics),
                *(f"{costs[key]:.1f}" for key in ("lm_calls", "iterations", "passages")),
                f"{costs['tokens']:.0f}",
                str(len(result.failures)),
            ]
        )
    columns = ["program", *metrics, "LM calls", "iterations", "passages", "tokens", "failed"]
    return title, columns, rows


def show_comparisons(results: Mapping[str, Evaluation], metric: str) -> None:
    """Show every evaluation against the first: difference with interval, wins and losses, p-value."""
    from knowgap.compile import compare

    (base_label, base), *others = results.items()
    rows = []
    for label, result in others:
        c = compare(base, result, metric)
        difference = f"{c.difference:+.3f} [{c.low:+.3f}, {c.high:+.3f}]"
        p_value = "< 0.001" if c.p_value < 0.001 else f"{c.p_value:.3f}"
        rows.append([f"{label} − {base_label}", difference, c.wins, c.losses, c.ties, p_value])
    if rows:
        columns = ["difference", f"{metric} [95% interval]", "wins", "losses", "ties", "p (paired)"]
        show_table("question by question", columns, rows)


def metric_names(names: Sequence[str] | None) -> list[str]:
    """The metrics of the options, or f1 and exact match if none is named.

    Raises:
        UnknownName: there is no such metric.
    """
    from knowgap.compile.evaluation.metrics import get_metric

    for name in names or ():
        get_metric(name)
    return list(names or _DEFAULT_METRICS)


COMMANDS = {"eval": evaluate, "compare": compare}
