"""The command that runs the tables of the papers, and your own: experiment."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.errors import UsageError

__all__ = ["COMMANDS", "experiment"]


@dataclass(frozen=True)
class Setup:
    """What the rows of a table are run with."""

    data_path: Annotated[
        list[str] | None,
        typer.Option("--data-path", "-d", help="A data set's file or folder, as NAME=PATH. Can be repeated."),
    ] = None
    corpus: Annotated[
        list[str] | None, typer.Option("--corpus", help="A data set's passages, as NAME=PATH. Can be repeated.")
    ] = None
    index: Annotated[
        list[str] | None, typer.Option("--index", "-i", help="A data set's index, as NAME=FOLDER. Can be repeated.")
    ] = None
    lm: o.Lm = None
    api_base: o.ApiBase = None
    lm_option: o.LmOption = None
    row_lm: Annotated[
        list[str] | None,
        typer.Option("--row-lm", help="What stands for a paper's language model, as THEIRS=MODEL. Can be repeated."),
    ] = None
    engine: Annotated[
        str | None, typer.Option("--engine", envvar="KNOWGAP_ENGINE", help="Index engine, instead of the table's.")
    ] = None
    quality: o.Quality = None
    reranker: o.Reranker = None
    entailment: o.Entailment = None
    rows: Annotated[list[str] | None, typer.Option("--row", "-r", help="A row to run. Can be repeated.")] = None
    baseline: Annotated[str | None, typer.Option("--baseline", help="The row that others are tested against.")] = None
    as_paper: Annotated[
        list[str] | None,
        typer.Option("--as-paper", help="What you know to be the paper's own: corpus, questions or models."),
    ] = None
    limit: o.Limit = None

    def arguments(self, seed: int, table_lm: str, *, asks: bool) -> dict[str, Any]:
        """The arguments of `run_experiment` and `estimate_cost`; models are loaded only if something is asked."""
        arguments: dict[str, Any] = {
            "data": factories.named_values(self.data_path, "--data-path"),
            "corpora": factories.named_values(self.corpus, "--corpus"),
            "indexes": factories.named_values(self.index, "--index"),
            "engine": self.engine,
            "quality": self.quality,
            "rows": self.rows or None,
            "limit": self.limit,
            "seed": seed,
            "as_paper": self.as_paper or (),
        }
        arguments["lm"] = factories.load_lm(self.lm or table_lm or None, self.api_base, self.lm_option, asks=asks)
        if not asks:
            return arguments
        row_lms = factories.named_values(self.row_lm, "--row-lm")
        arguments["lms"] = {name: factories.load_lm(lm, self.api_base, self.lm_option) for name, lm in row_lms.items()}
        return {**arguments, **factories.load_scorers(self.reranker, self.entailment)}


@o.grouped
def experiment(
    table: Annotated[str, typer.Argument(help="A table: a name of `knowgap experiment --list`, or a TOML file.")] = "",
    *,
    list_tables: Annotated[bool, typer.Option("--list", help="List the tables that come with knowgap.")] = False,
    setup: Setup,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Ask nothing; print calls, tokens and price.")] = False,
    ask: Annotated[
        int,
        typer.Option(
            "--ask", min=0, help="With --dry-run: questions of each cell to ask first, for a closer estimate."
        ),
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
    from knowgap.compile.experiments.cost import estimate_cost
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
    opened = read_table(table)
    folder = output_dir or Path(f"experiment-{opened.name}")
    arguments = setup.arguments(seed, opened.lm, asks=not dry_run or ask > 0)
    if dry_run:
        _show_estimate(opened.title, estimate_cost(opened, output=folder, ask=ask, prices=prices, **arguments), as_json)
        return
    with progress(opened.name) as report:
        result = run_experiment(
            opened,
            output=folder,
            baseline=setup.baseline,
            num_threads=num_threads,
            progress=report,
            prices=prices,
            ray_address=ray_address,
            **arguments,
        )
    write_experiment_report(result, folder)
    if as_json:
        out.print_json(result.model_dump_json())
        return
    _show_result(result)
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


def _show_estimate(title: str, estimate: Any, as_json: bool) -> None:
    if as_json:
        totals = {"calls": estimate.calls, "tokens": estimate.tokens, "price": estimate.price}
        out.print_json(json.dumps({**estimate.model_dump(), **totals}))
        return
    rows = [
        [cell.row, cell.column, cell.questions, _range(cell.calls), _range(cell.tokens), cell.basis]
        for cell in estimate.cells
    ]
    show_table(title, ["row", "data", "questions", "calls", "tokens", "estimated from"], rows)
    price = "unknown (name one with --prices)"
    if estimate.price is not None:
        price = f"${estimate.price[0]:,.2f} to ${estimate.price[1]:,.2f}"
    calls, tokens = _range(estimate.calls), _range(estimate.tokens)
    out.print(f"{calls} calls, {tokens} tokens; price for {estimate.lm}: {price}", markup=False)


def _range(bounds: tuple[float, float]) -> str:
    low, high = (f"{value:,.0f}" for value in bounds)
    return low if low == high else f"{low} to {high}"


def _show_result(result: Any) -> None:
    from knowgap.reports.experiment import figure_text

    for number, column in enumerate(result.table.columns):
        rows = []
        for cell in result.cells:
            if cell.column != number:
                continue
            figures = []
            for figure in cell.figures:
                mean, interval = figure_text(figure)
                paper = "" if figure.paper is None else f" (paper {figure.paper:g}{' ≠' if cell.differs else ''})"
                star = "*" if figure.significant else ""
                figures.append(f"{mean}{star} {interval}{paper}".strip())
            rows.append([result.table.rows[cell.row].label, *figures, cell.failed or cell.reason or 0])
        note = f"* significantly different from {result.baseline} at 5% (paired, Holm)"
        if result.table.paper:
            note += "; ≠ the paper's setting is not ours"
        show_table(column.title, ["row", *column.metrics, "failed"], rows, caption=note)


COMMANDS = {"experiment": experiment}
