"""The command that runs the tables of the papers, and your own: experiment."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.cli.evaluate import show_estimates
from knowgap.errors import UsageError


@dataclass(frozen=True)
class ExperimentOptions(o.ModelOptions):
    """What the rows of a table are run with."""

    data_path: Annotated[
        list[str] | None,
        Option("--data-path", "-d", help="A data set's file or folder, as NAME=PATH. Can be repeated."),
    ] = None
    corpus: Annotated[
        list[str] | None, Option("--corpus", help="A data set's passages, as NAME=PATH. Can be repeated.")
    ] = None
    index: Annotated[
        list[str] | None, Option("--index", "-i", help="A data set's index, as NAME=FOLDER. Can be repeated.")
    ] = None
    engine: o.Engine = None
    parts: o.Parts = None
    rows: Annotated[list[str] | None, Option("--row", "-r", help="A row to run. Can be repeated.")] = None
    baseline: Annotated[str, Option("--baseline", help="The row that others are tested against.")] = ""
    limit: o.Limit = None
    dry_run: o.DryRun = False
    prices: o.Prices = None
    seed: o.Seed = 0
    num_threads: o.Threads = 4
    output_dir: o.OutputDir = None


@o.grouped
def experiment(
    table: Annotated[str, Argument(help="A table: a name of `knowgap experiment --list`, or a TOML file.")] = "",
    *,
    list_tables: Annotated[bool, Option("--list", help="List the tables that come with knowgap.")] = False,
    options: ExperimentOptions,
    as_json: o.Json = False,
) -> None:
    """Run a table of programs and data sets, continue it where it stopped, and write it as Markdown and CSV."""
    from knowgap.compiling import Run
    from knowgap.compiling.experiments.result import cell_text
    from knowgap.compiling.experiments.run import Experiment
    from knowgap.compiling.experiments.table import read_table

    if list_tables:
        _list(as_json)
        return
    if not table:
        raise UsageError(
            "name a table (`knowgap experiment --list` shows those that come with knowgap), or a TOML file"
        )
    read = read_table(table)
    folder = options.output_dir or Path(f"experiment-{read.name}")
    asked = Experiment(
        read,
        folder,
        data=factories.named_values(options.data_path, "--data-path"),
        corpora=factories.named_values(options.corpus, "--corpus"),
        indexes=factories.named_values(options.index, "--index"),
        engine=options.engine,
        rows=options.rows,
        baseline=options.baseline,
        limit=options.limit,
        models=factories.load_parts(factories.named_values(options.parts, "--part"), ["reranker", "entailment"]),
    )
    lm = factories.load_lm(options)
    run = Run(lm=lm, num_threads=options.num_threads, seed=options.seed)
    if options.dry_run:
        estimates = asked.estimate(run, options.prices)
        show_estimates({" on ".join(cell): each for cell, each in estimates.items()}, lm, as_json, of="cell")
        return
    with progress(read.name) as report:
        result = asked.run(replace(run, progress=report))
    lines = {column.title: result.lines(column) for column in read.columns}
    if as_json:
        out.print_json(json.dumps([line for own in lines.values() for line in own]))
    for column in () if as_json else read.columns:
        by_row: dict[str, list[dict[str, object]]] = {}
        for line in lines[column.title]:
            by_row.setdefault(str(line["row"]), []).append(line)
        shown = [[label, *map(cell_text, own), own[0]["failed"] or own[0]["note"]] for label, own in by_row.items()]
        if shown:
            show_table(column.title, ["row", *column.metrics, "failed"], shown, caption=result.setting(column))
    remark(f"written to {folder}: experiment.md, experiment.csv; * p < 0.05 against the baseline (paired, Holm)")


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
