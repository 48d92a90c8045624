"""Commands that score programs on questions, and show scores on a page: eval, experiment, report."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.errors import UsageError

if TYPE_CHECKING:
    import dspy

    from knowgap.compiling import Estimate, Evaluations
    from knowgap.compiling.data import Dataset
    from knowgap.retrieval.passage import Retriever


@dataclass(frozen=True)
class EvaluateOptions(o.JobOptions):
    """Programs, and what it takes to score them on a split."""

    split: Annotated[str, Option("--split", help="Split: train, dev or test.")] = "test"
    whole: Annotated[bool, Option("--whole", help="Take all questions of a file, not its test part alone.")] = False


@o.grouped
def evaluate(*, options: EvaluateOptions, as_json: o.Json = False) -> None:
    """Score programs on a split: means with 95% intervals, costs, and what became of the gold passages.

    Several programs are asked the same questions, and each is tested against the first, question by question. With an
    output folder, the same command continues a run that was stopped. The exit code is 1 if every question failed.
    """
    from knowgap.compiling import Run, estimate, evaluate

    checked = factories.check_programs(options)
    split, output = options.split, options.output_dir
    with open_job(options, [split], checked.values(), split_as=split if options.whole else None) as job:
        dataset, metrics, lm, retriever = job
        if not options.whole and options.data and Path(options.data.rpartition(":")[2]).is_file():
            every = sum(map(len, dataset.splits.values()))
            remark(f"{len(dataset.splits[split])} of {every} questions are the {split} split; --whole takes all")
        made = [(label, each.make(retriever, lm)) for label, each in checked.items()]
        programs = {label or program.name: program for label, program in made}
        with progress(f"{dataset.name}/{split}") as report:
            run = Run(lm, options.num_threads, options.seed, report)
            if options.dry_run:
                asked = dataset.questions(split, options.limit)
                estimates = {label: estimate(each, asked, metrics, run=run) for label, each in programs.items()}
                show_estimates(estimates, lm, as_json)
                return
            kept: Any = {"output": output, "traces": output is not None}
            results = evaluate(programs, dataset, metrics, split=split, limit=options.limit, run=run, **kept)
        if output is not None:
            remark(f"written to {results.save(output)}; `knowgap report {output}` shows the questions")
    _show(results, "all" if options.whole else f"{split} split,", as_json)
    if all(len(each.failures) == len(each.records) for each in results.values()):
        raise Exit(1)


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
    for column in (each for each in read.columns if each.title in result.evaluations):
        shown = [[*cells, failed or note] for *cells, failed, note in result.rows(column)]
        show_table(column.title, ["row", *column.metrics, "failed"], shown, caption=result.setting(column))
    remark(f"written to {folder}: experiment.md, experiment.csv; * p < 0.05 against the baseline (paired, Holm)")


def report(
    source: Annotated[str, Argument(help="A folder that compile or eval wrote.")],
    output: Annotated[Path, Option("--output", "-o", help="The page to write.")] = Path("report.html"),
) -> None:
    """Show evaluations on one HTML page, which opens without a network."""
    from knowgap.compiling import Evaluations
    from knowgap.reports.pages import render_report
    from knowgap.storage.files import write_file

    out.print(f"written to {write_file(output, render_report(Evaluations.load(source)))}", markup=False)


def _show(results: Evaluations, asked: str, as_json: bool) -> None:
    base, *others = results.values()
    if as_json:
        summaries = {
            label: {**result.summary(), "provenance": result.provenance.model_dump(mode="json")}
            for label, result in results.items()
        }
        out.print_json(json.dumps(summaries if others else summaries.popitem()[1]))
        return
    facts: Any = base.provenance
    title = f"{facts.dataset}, {asked} {len(base.records)} questions, {facts.lm}"
    show_scores(title, results, types=not others)
    for record in base.failures[:3] if not others else ():
        remark(f"failed: {record.id}: {record.failure}")


@contextmanager
def open_job(
    options: o.JobOptions,
    splits: Iterable[str],
    checked: Iterable[factories.CheckedProgram],
    *,
    split_as: str | None = None,
) -> Iterator[tuple[Dataset, list[str], dspy.LM, Retriever | None]]:
    """Load the data set, the metrics, the language model and the index, and check that the splits have questions.

    No language model is loaded if generators answer and no metric asks one. `split_as` is the name of the one split
    that all questions form.
    """
    from knowgap.compiling.evaluation.metrics import DEFAULT_METRICS, get_metric

    if options.lm in (None, "extractive") and options.num_threads > 1:
        # Questions that are asked at once keep the cores busy; threads of the reader's small products would wait for
        # each other. It must be set before torch is loaded.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    checked, metrics = list(checked), list(options.metric or DEFAULT_METRICS)
    for name in metrics:
        get_metric(name)
    dataset = factories.load_data(options, split_as)
    if split_as is not None and any(each for name, each in dataset.splits.items() if name != split_as):
        raise UsageError("--whole takes one file; these questions are divided: leave it out, or name one of the files")
    for split in splits:
        dataset.questions(split, options.limit)
    generated = all(each.generator is not None for each in checked) and "judged_accuracy" not in metrics
    lm = factories.load_lm(options, generator=checked[0].generator if generated else None)
    retrieves = any(each.retrieves for each in checked)
    with factories.open_index(options, dataset) if retrieves else nullcontext() as retriever:
        yield dataset, metrics, lm, retriever


def show_estimates(estimates: Mapping[str, Estimate], lm: dspy.LM, as_json: bool = False) -> None:
    """Show what runs would cost, by label."""
    if as_json:
        out.print_json(json.dumps({label: estimate.model_dump() for label, estimate in estimates.items()}))
        return
    rows = []
    for label, e in estimates.items():
        counts = (e.questions, e.calls, e.prompt_tokens, e.completion_tokens)
        money = "unknown" if e.money is None else f"{e.money:,.4f}"
        rows.append([label, *(f"{count:,}" for count in counts), money])
    caption = "about, if no answer comes from a cache: three questions of each were asked"
    columns = ["program", "questions", "LM calls", "tokens in", "tokens out", "US dollars"]
    show_table(f"what it would cost with {lm.model}", columns, rows, caption=caption)


def show_scores(title: str, results: Evaluations, *, types: bool = False) -> None:
    """Show evaluations: scores with intervals and costs, the fates of the gold passages, and comparisons."""
    from knowgap.reports.tables import score_tables

    for table in score_tables(title, results, types=types):
        show_table(table.title, table.columns, table.rows, caption=table.caption)
