"""The command that runs the tables of the papers, and your own: experiment."""

from __future__ import annotations

import functools
import json
import operator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, cast

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
    row_lm: Annotated[
        list[str] | None,
        Option("--row-lm", help="The model to use for a paper's language model, as THEIRS=MODEL. Can be repeated."),
    ] = None
    engine: o.Engine = None
    quality: o.Quality = None
    parts: o.Parts = None
    allow_hub: o.AllowHub = None
    rows: Annotated[list[str] | None, Option("--row", "-r", help="A row to run. Can be repeated.")] = None
    columns: Annotated[
        list[str] | None, Option("--column", "-c", help="The data set of a column to run. Can be repeated.")
    ] = None
    baseline: Annotated[str | None, Option("--baseline", help="The row that others are tested against.")] = None
    as_paper: Annotated[
        list[str] | None,
        Option("--as-paper", help="What you know to be the paper's own: corpus, questions or models."),
    ] = None
    limit: o.Limit = None
    dry_run: o.DryRun = False
    measure: o.Measure = False
    prices: o.Prices = None
    ray_address: Annotated[
        str | None,
        Option("--ray-address", envvar="KNOWGAP_RAY_ADDRESS", rich_help_panel=o.RUNNING, help="Ray cluster, or local."),
    ] = None
    seed: o.Seed = 0
    seeds: Annotated[
        str | None,
        Option("--seeds", metavar="N,N,…", help="Run the table with each of these seeds: means ± standard deviations."),
    ] = None
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
    """Run a table of programs and data sets, continue it where it stopped, and write its page."""
    from knowgap.compiling.experiments.cells import ExperimentSetup
    from knowgap.compiling.experiments.runner import estimate_experiment, run_experiment
    from knowgap.compiling.experiments.seeds import draws
    from knowgap.compiling.experiments.table import read_table
    from knowgap.reports.experiment import write_experiment_report
    from knowgap.retrieval.hub import check_allowed

    if list_tables:
        _list(as_json)
        return
    if not table:
        raise UsageError(
            "name a table (`knowgap experiment --list` shows those that come with knowgap), or a TOML file"
        )
    if options.measure and not options.dry_run:
        raise UsageError("--measure works only with --dry-run: add it, or leave --measure out")
    seeds = _seeds_of(options)
    whole = read_table(table)
    opened = whole.only(options.columns or ())
    left_out = {column.dataset for column in whole.columns} - {column.dataset for column in opened.columns}
    folder = options.output_dir or Path(f"experiment-{opened.name}")

    def paths(given: list[str] | None, option: str) -> dict[str, str]:
        return {name: path for name, path in factories.named_values(given, option).items() if name not in left_out}

    setup: dict[str, Any] = {
        "output": folder,
        "data": paths(options.data_path, "--data-path"),
        "corpora": paths(options.corpus, "--corpus"),
        "indexes": paths(options.index, "--index"),
        "rows": options.rows or None,
        "as_paper": options.as_paper or (),
        **{name: getattr(options, name) for name in ("engine", "quality", "limit")},
        "seed": seeds[0],
        "allow_hub": options.allow_hub or (),
        **factories.load_parts(options.parts, ["reranker", "entailment"]),
    }
    row_lms = factories.named_values(options.row_lm, "--row-lm")
    checked = ExperimentSetup(**setup, lms=cast("Any", row_lms))
    unmeasured = options.dry_run and not options.measure
    if imports := checked.imports(opened):
        remark(
            f"the table would import and run {', '.join(imports)}: nothing is imported now, and the cells that need it "
            "are not estimated"
            if unmeasured
            else f"the table imports and runs {', '.join(imports)}"
        )
    unused = checked.check(opened, options.baseline, dry=unmeasured)
    if unused:
        remark(f"these options have no effect on this run: {', '.join(f'--part {name}' for name in unused)}")
    if options.lm is None and opened.lm.startswith("hf/"):
        check_allowed(opened.lm.removeprefix("hf/"), table, options.allow_hub or ())
    names = {"": options.lm or opened.lm or None, **row_lms}
    asks = not options.dry_run or options.measure
    lms = {name: factories.load_lm(replace(options, lm=lm), asks=asks) for name, lm in names.items()}
    setup |= {"lm": lms.pop(""), "lms": lms}
    if options.dry_run:
        estimates = estimate_experiment(opened, measure=options.measure, prices=options.prices, **setup)
        labelled = {
            " on ".join(cell): functools.reduce(operator.add, [e] * len(seeds)) for cell, e in estimates.items()
        }
        show_estimates(labelled, setup["lm"], as_json, of="cell")
        return
    if len(seeds) > 1 and not any(map(draws, lms.values())):
        remark("the language model answers at temperature 0: seeds can only change which questions are drawn")
    with progress(opened.name) as report:
        result = run_experiment(
            opened,
            baseline=options.baseline,
            num_threads=options.num_threads,
            progress=report,
            prices=options.prices,
            ray_address=options.ray_address,
            seeds=seeds,
            **setup,
        )
    write_experiment_report(result, folder)
    if as_json:
        out.print_json(result.model_dump_json())
        return
    _show_result(result)
    remark(f"written to {folder}: index.html, experiment.md, experiment.tex, experiment.csv, experiment.json")


def _seeds_of(options: ExperimentOptions) -> list[int]:
    """The seeds that the table is run with: `--seeds`, or `--seed` alone."""
    if options.seeds is None:
        return [options.seed]
    try:
        return list(dict.fromkeys(int(seed) for seed in options.seeds.split(",")))
    except ValueError:
        raise UsageError(f"--seeds {options.seeds!r}: write whole numbers separated by commas, such as 0,1,2") from None


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
