"""The command that runs the tables of the papers, and one's own: experiment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.errors import UsageError

__all__ = ["COMMANDS", "experiment"]


def experiment(
    table: Annotated[str, typer.Argument(help="A table: a name of `knowgap experiment --list`, or a TOML file.")] = "",
    list_tables: Annotated[bool, typer.Option("--list", help="List the tables that come with knowgap.")] = False,
    data_path: Annotated[
        list[str] | None,
        typer.Option("--data-path", "-d", help="A data set's file or folder, as NAME=PATH. Can be repeated."),
    ] = None,
    corpus: Annotated[
        list[str] | None, typer.Option("--corpus", help="A data set's passages, as NAME=PATH. Can be repeated.")
    ] = None,
    index: Annotated[
        list[str] | None, typer.Option("--index", "-i", help="A data set's index, as NAME=FOLDER. Can be repeated.")
    ] = None,
    lm: o.Lm = None,
    api_base: o.ApiBase = None,
    row_lm: Annotated[
        list[str] | None,
        typer.Option("--row-lm", help="What stands for a paper's language model, as THEIRS=MODEL. Can be repeated."),
    ] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", envvar="KNOWGAP_ENGINE", help="Index engine, instead of the table's.")
    ] = None,
    quality: o.Quality = None,
    reranker: o.Reranker = None,
    entailment: o.Entailment = None,
    rows: Annotated[list[str] | None, typer.Option("--row", "-r", help="A row to run. Can be repeated.")] = None,
    baseline: Annotated[str | None, typer.Option("--baseline", help="The row that others are tested against.")] = None,
    as_paper: Annotated[
        list[str] | None,
        typer.Option("--as-paper", help="What you know to be the paper's own: corpus, questions or models."),
    ] = None,
    limit: o.Limit = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Ask nothing; print calls, tokens and price.")] = False,
    ask: Annotated[
        int, typer.Option("--ask", min=0, help="With --dry-run: ask so many questions of each cell to estimate from.")
    ] = 0,
    prices: Annotated[
        tuple[float, float] | None,
        typer.Option("--prices", help="US dollars per million prompt and completion tokens."),
    ] = None,
    ray_address: Annotated[
        str | None,
        typer.Option("--ray-address", envvar="KNOWGAP_RAY_ADDRESS", help="Ray cluster, or local."),
    ] = None,
    seed: o.Seed = 0,
    num_threads: o.Threads = 4,
    output_dir: o.OutputDir = None,
    as_json: o.Json = False,
) -> None:
    """Run a table of programs and data sets, continue it where it stopped, and write its page."""
    from knowgap.compile.experiments.runner import run_experiment
    from knowgap.compile.experiments.table import read_table
    from knowgap.reports.experiment import write_experiment_report

    if list_tables:
        _list(as_json)
        return
    if not table:
        raise UsageError(
            "name a table (`knowgap experiment --list` shows those that come with knowgap), or a TOML file"
        )
    read = read_table(table)
    folder = output_dir or Path(f"experiment-{read.name}")
    setup: dict[str, Any] = {
        "data": factories.named_values(data_path, "--data-path"),
        "corpora": factories.named_values(corpus, "--corpus"),
        "indexes": factories.named_values(index, "--index"),
        "engine": engine,
        "quality": quality,
        "rows": rows or None,
        "limit": limit,
        "seed": seed,
        "as_paper": as_paper or (),
    }
    named = lm or read.lm or None
    if dry_run and not ask:
        from knowgap.lms import make_lm

        setup["lm"] = make_lm(named or "extractive", api_base=api_base)
    else:
        setup["lm"] = factories.load_lm(named, api_base)
        others = factories.named_values(row_lm, "--row-lm")
        setup["lms"] = {theirs: factories.load_lm(ours, api_base) for theirs, ours in others.items()}
        setup |= factories.load_scorers(reranker, entailment)
    if dry_run:
        _plan(read, folder, ask, prices, setup, as_json)
        return
    with progress(read.name) as report:
        found = run_experiment(
            read,
            output=folder,
            baseline=baseline,
            num_threads=num_threads,
            progress=report,
            prices=prices,
            ray_address=ray_address,
            **setup,
        )
    write_experiment_report(found, folder)
    if as_json:
        out.print_json(found.model_dump_json())
        return
    _show(found)
    remark(f"written to {folder}: index.html, experiment.md, experiment.csv, experiment.json")


def _list(as_json: bool) -> None:
    from knowgap.compile.experiments.table import read_table, shipped_tables

    tables = {name: read_table(name) for name in shipped_tables()}
    if as_json:
        out.print_json(json.dumps({name: table.title for name, table in tables.items()}))
        return
    rows = [
        [name, table.title, ", ".join(dict.fromkeys(column.dataset for column in table.columns)), len(table.rows)]
        for name, table in tables.items()
    ]
    show_table("tables", ["name", "what is compared", "data", "rows"], rows)


def _plan(table: Any, folder: Path, ask: int, prices: Any, setup: dict[str, Any], as_json: bool) -> None:
    from knowgap.compile.experiments.cost import estimate_cost

    plan = estimate_cost(table, output=folder, ask=ask, prices=prices, **setup)
    if as_json:
        totals = {"calls": plan.calls, "tokens": plan.tokens, "price": plan.price}
        out.print_json(json.dumps({**plan.model_dump(), **totals}))
        return
    rows = [
        [
            cell.row,
            cell.column,
            cell.questions,
            _range(cell.calls),
            _range(
                (cell.prompt_tokens[0] + cell.completion_tokens[0], cell.prompt_tokens[1] + cell.completion_tokens[1])
            ),
            cell.basis,
        ]
        for cell in plan.cells
    ]
    show_table(table.title, ["row", "data", "questions", "calls", "tokens", "estimated from"], rows)
    price = f"${plan.price[0]:,.2f} to ${plan.price[1]:,.2f}" if plan.price else "unknown (name one with --prices)"
    out.print(f"{_range(plan.calls)} calls, {_range(plan.tokens)} tokens; price for {plan.lm}: {price}", markup=False)


def _range(bounds: tuple[float, float]) -> str:
    low, high = (f"{value:,.0f}" for value in bounds)
    return low if low == high else f"{low} to {high}"


def _show(found: Any) -> None:
    from knowgap.reports.experiment import figure_text

    for number, column in enumerate(found.table.columns):
        rows = []
        for cell in found.cells:
            if cell.column != number:
                continue
            figures = []
            for figure in cell.figures:
                mean, interval = figure_text(figure)
                paper = "" if figure.paper is None else f" (paper {figure.paper:g}{' ≠' if cell.differs else ''})"
                star = "*" if figure.significant else ""
                figures.append(f"{mean}{star} {interval}{paper}".strip())
            rows.append([found.table.rows[cell.row].label, *figures, cell.failed or cell.reason or 0])
        note = f"* significantly different from {found.baseline} at 5% (paired, Holm)"
        if found.table.paper:
            note += "; ≠ the paper's setting is not ours"
        show_table(column.title, ["row", *column.metrics, "failed"], rows, caption=note)


COMMANDS = {"experiment": experiment}
