"""The command that runs the tables of the papers, and your own: experiment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import progress, remark, show_table


@dataclass(frozen=True)
class ExperimentOptions(o.ModelOptions):
    """What the rows of a table are run with."""

    data_path: Annotated[
        list[str] | None,
        Option("--data-path", "-d", help="A data set's file or folder, as NAME=PATH. Can be repeated."),
    ] = None
    index: Annotated[
        list[str] | None,
        Option(
            "--index",
            "-i",
            help="A data set's index, as NAME=FOLDER; without it, one of the data set's own passages. Can be repeated.",
        ),
    ] = None
    engine: o.Engine = None
    parts: o.Parts = None
    rows: Annotated[list[str] | None, Option("--row", "-r", help="A row to run. Can be repeated.")] = None
    limit: o.Limit = None
    seed: o.Seed = 0
    num_threads: o.Threads = 4
    output_dir: o.OutputDir = None


@o.grouped
def experiment(
    table: Annotated[str, Argument(help="A table: one of `knowgap ls tables`, or a TOML file.")],
    *,
    options: ExperimentOptions,
) -> None:
    """Run a table of programs and data sets, continue it where it stopped, and write it as Markdown and CSV."""
    from knowgap.compiling import Run
    from knowgap.compiling.experiments.run import run_experiment
    from knowgap.compiling.experiments.table import read_table

    read = read_table(table)
    folder = options.output_dir or Path(f"experiment-{read.name}")
    asked: dict[str, Any] = {
        "data": factories.named_values(options.data_path, "--data-path"),
        "indexes": factories.named_values(options.index, "--index"),
        "models": factories.load_parts(factories.named_values(options.parts, "--part"), ["reranker", "entailment"]),
        **{"engine": options.engine, "rows": options.rows, "limit": options.limit},
    }
    lm = factories.load_lm(options)
    with progress(read.name) as report:
        run = Run(lm, options.num_threads, options.seed, report)
        result = run_experiment(read, folder, **asked, run=run)
    for column in read.columns:
        shown = [[*cells, failed or note] for *cells, failed, note in result.rows(column)]
        if shown:
            show_table(column.title, ["row", *column.metrics, "failed"], shown, caption=result.setting(column))
    remark(f"written to {folder}: experiment.md, experiment.csv; * p < 0.05 against the baseline (paired, Holm)")
