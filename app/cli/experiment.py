"""The command that runs the tables of the papers, and your own: experiment."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.cli.evaluate import show_estimates
from knowgap.errors import UsageError

if TYPE_CHECKING:
    from knowgap.compiling.experiments.table import ExperimentTable

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
    parts: o.Parts = None
    rows: Annotated[list[str] | None, typer.Option("--row", "-r", help="A row to run. Can be repeated.")] = None
    baseline: Annotated[str | None, typer.Option("--baseline", help="The row that others are tested against.")] = None
    as_paper: Annotated[
        list[str] | None,
        typer.Option("--as-paper", help="What you know to be the paper's own: corpus, questions or models."),
    ] = None
    limit: o.Limit = None

    def arguments(self, table: ExperimentTable, folder: Path, seed: int, *, asks: bool) -> dict[str, Any]:
        """The arguments of `run_experiment`; names are checked before a language model is asked."""
        from knowgap.compiling.experiments.cells import ExperimentSetup

        arguments: dict[str, Any] = {
            "output": folder,
            "data": factories.named_values(self.data_path, "--data-path"),
            "corpora": factories.named_values(self.corpus, "--corpus"),
            "indexes": factories.named_values(self.index, "--index"),
            "engine": self.engine,
            "quality": self.quality,
            "rows": self.rows or None,
            "limit": self.limit,
            "seed": seed,
            "as_paper": self.as_paper or (),
            **factories.load_parts(self.parts, ["reranker", "entailment"]),
        }
        row_lms = factories.named_values(self.row_lm, "--row-lm")
        unused = ExperimentSetup(**arguments, lms=cast("Any", row_lms)).check(table, self.baseline)
        if unused:
            remark(f"without effect on this run: {', '.join(f'--part {name}' for name in unused)}")
        load = functools.partial(factories.load_lm, api_base=self.api_base, lm_option=self.lm_option, asks=asks)
        arguments["lm"] = load(self.lm or table.lm or None)
        arguments["lms"] = {name: load(lm) for name, lm in row_lms.items()}
        return arguments


@o.grouped
def experiment(
    table: Annotated[str, typer.Argument(help="A table: a name of `knowgap experiment --list`, or a TOML file.")] = "",
    *,
    list_tables: Annotated[bool, typer.Option("--list", help="List the tables that come with knowgap.")] = False,
    setup: Setup,
    dry_run: o.DryRun = False,
    measure: o.Measure = False,
    prices: o.Prices = None,
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
    from knowgap.compiling.experiments.runner import estimate_experiment, run_experiment
    from knowgap.compiling.experiments.table import read_table
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
    if measure and not dry_run:
        raise UsageError("--measure: goes with --dry-run")
    arguments = setup.arguments(opened, folder, seed, asks=not dry_run or measure)
    if dry_run:
        estimates = estimate_experiment(opened, measure=measure, prices=prices, **arguments)
        show_estimates(
            {" on ".join(cell): found for cell, found in estimates.items()}, arguments["lm"], as_json, of="cell"
        )
        return
    with progress(opened.name) as report:
        result = run_experiment(
            opened,
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
    from knowgap.compiling.experiments.table import read_table, shipped_tables

    tables = {name: read_table(name) for name in shipped_tables()}
    if as_json:
        out.print_json(json.dumps({name: table.title for name, table in tables.items()}))
        return
    rows = [
        [name, table.title, ", ".join(dict.fromkeys(column.dataset for column in table.columns)), len(table.rows)]
        for name, table in tables.items()
    ]
    show_table("tables", ["name", "what is compared", "data", "rows"], rows)


def _show_result(result: Any) -> None:
    from knowgap.reports.experiment import few_in_column, figure_text

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
            failed = str(cell.failed or cell.reason or 0)
            rows.append([result.table.rows[cell.row].label, *figures, "; ".join(filter(None, (failed, cell.spoilt)))])
        note = f"* significantly different from {result.baseline} at 5% (paired, Holm)"
        if result.table.paper:
            note += "; ≠ the paper's setting is not ours"
        note = "; ".join(filter(None, (note, few_in_column(result, number))))
        show_table(column.title, ["row", *column.metrics, "failed"], rows, caption=note)


COMMANDS = {"experiment": experiment}
