"""Run a table: ask every program the questions of every data set, and continue a run that was stopped.

A run keeps everything in its output folder: a file of answers for each program, data set and language model
(`answers/`), indexes (`indexes/`), retrieved lists and scores of models (`cache/`), and answers of language models
(`lm-cache/`). The same call reads them again and asks only what is missing, whether the run was killed or finished.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import dspy

from knowgap.compiling.data import Dataset
from knowgap.compiling.evaluation.costs import COSTS
from knowgap.compiling.evaluation.delegating_program import DelegatingProgram, ask_among
from knowgap.compiling.evaluation.estimate import Estimate, estimate
from knowgap.compiling.evaluation.evaluator import answers_about, evaluate, file_name
from knowgap.compiling.evaluation.provenance import digest, lm_name, provenance_of, state_of
from knowgap.compiling.evaluation.ray import Cluster, connect
from knowgap.compiling.evaluation.results import Evaluation
from knowgap.compiling.evaluation.runner import resolve_lm
from knowgap.compiling.evaluation.shared_cache import cache_results, lm_cache
from knowgap.compiling.experiments.cells import Cell, ExperimentSetup, paper_differences, prepare
from knowgap.compiling.experiments.result import CellResult, ExperimentResult, Figure
from knowgap.compiling.experiments.seeds import compare_with_baseline, merge_seeds, seeded
from knowgap.compiling.experiments.table import ExperimentTable, Row, read_table
from knowgap.compiling.run import Run
from knowgap.lms.metering import Prices, UsageTracker, track_usage
from knowgap.plugins import reference_of
from knowgap.programs.base import Program
from knowgap.programs.trace.trace import Cost
from knowgap.storage.progress import Progress, part_of


def run_experiment(
    table: ExperimentTable | str | Path,
    *,
    output: str | Path,
    baseline: str | None = None,
    num_threads: int = 4,
    progress: Progress | None = None,
    prices: tuple[float, float] | None = None,
    ray_address: str | None = None,
    seeds: Sequence[int] = (),
    **setup: Any,
) -> ExperimentResult:
    """Run a table and save its results: `experiment.json` and `experiment.csv`.

    Every answer is written to `output` as soon as it arrives, and the same call continues from there. Rows share lists
    of passages, scores of rerankers and answers of the language model.

    Args:
        table: a table, the name of one that comes with knowgap, or a TOML file.
        output: folder for answers, indexes and results.
        baseline: label of the row that the others are tested against, instead of the table's, or of the first that is
            run.
        num_threads: how many questions are asked at a time.
        progress: called with the questions done, all questions, and what is being asked.
        prices: US dollars per million prompt and completion tokens, if DSPy does not know them.
        ray_address: a Ray cluster that answers the questions, or `local` for one on this machine.
        seeds: run the table once with each of these instead of `seed`: figures are means over the seeds with their
            standard deviation, and `output` has a folder with the results of each seed; see `merge_seeds`.
        **setup: data, language model and so on: see `ExperimentSetup`.

    Raises:
        UsageError: an option that does not fit the table, or no data for any column.
        DataError: data that cannot be read or scored.
        LanguageModelUnreachable: the language model can no longer be reached; the same call continues the run.
    """
    table = table if isinstance(table, ExperimentTable) else read_table(table)
    options = ExperimentSetup(output=Path(output), **setup)
    options = replace(options, lm=resolve_lm(options.lm))
    found = [
        _run_seed(table, each, baseline, num_threads, progress, prices, ray_address)
        for each in (seeded(options, seed) for seed in dict.fromkeys(seeds or [options.seed]))
    ]
    experiment = found[0][0]
    if len(found) > 1:
        for result, _ in found:
            result.save(options.output / f"seed-{result.seed}")
        experiment = merge_seeds(found)
    experiment.save(options.output)
    return experiment


def _run_seed(
    table: ExperimentTable,
    options: ExperimentSetup,
    baseline: str | None,
    num_threads: int,
    progress: Progress | None,
    prices: tuple[float, float] | None,
    ray_address: str | None,
) -> tuple[ExperimentResult, list[Evaluation | None]]:
    """Run a table with the seed of the options; return its results, and the evaluation of each cell."""
    cells = prepare(table, options, baseline=baseline, progress=progress)
    tracker, results = UsageTracker(prices), []
    cluster = connect(ray_address, tracker, options.output / "lm-cache") if ray_address else nullcontext()
    with lm_cache(options.output / "lm-cache"), track_usage(tracker), cluster as connected:
        run = _Run(options, num_threads, connected)
        total, asked = sum(len(cell.examples) for cell in cells if cell.program is not None), 0
        for cell in cells:
            evaluation = None
            if cell.program is not None:
                name = f"{cell.row.label} on {cell.column.title}"
                evaluation = run.cell(cell, part_of(progress, asked, total, name))
                asked += len(cell.examples)
            results.append((_cell_result(cell, table, options, evaluation), evaluation))
    ran = [cell.row.label for cell in cells if cell.program is not None]
    label = baseline or (table.baseline if table.baseline in ran else next(iter(ran), ""))
    by_cell = [(result, [] if evaluation is None else [evaluation]) for result, evaluation in results]
    compare_with_baseline(table, label, by_cell, options.seed)
    experiment = ExperimentResult(
        table=table,
        baseline=label,
        cells=[result for result, _ in results],
        spent=tracker.usage,
        limit=options.limit,
        seed=options.seed,
    )
    return experiment, [evaluation for _, evaluation in results]


def estimate_experiment(
    table: ExperimentTable | str | Path,
    *,
    output: str | Path,
    measure: bool = False,
    prices: Prices | None = None,
    **setup: Any,
) -> dict[tuple[str, str], Estimate]:
    """Estimate what `run_experiment` costs, by row and column; rows that share their answers are counted once.

    `measure` asks three questions of each cell first, and estimates from what they cost; indexes are built for it.
    Without it, no module that the table names is imported, and the cells that need one are left out; see
    `ExperimentSetup.imports`.
    The other arguments are those of `run_experiment`.
    """
    table = table if isinstance(table, ExperimentTable) else read_table(table)
    options = ExperimentSetup(output=Path(output), **setup)
    if measure:
        options = replace(options, lm=resolve_lm(options.lm))
    estimates: dict[str, tuple[tuple[str, str], Estimate]] = {}
    run = _Run(options, num_threads=1, cluster=None)
    with lm_cache(options.output / "lm-cache") if measure else nullcontext():
        for cell in prepare(table, options, dry=not measure):
            if cell.program is None or (identity := run.identity(cell)) in estimates:
                continue
            costs = functools.partial(
                estimate, metrics=cell.column.metrics, lm=cell.lm or dspy.settings.lm, prices=prices, measure=measure
            )
            with run.program(cell) if measure else nullcontext(cell.program) as program:
                found = costs(program, cell.examples if measure else cell.questions * max(1, len(cell.row.top_p)))
            estimates[identity] = (cell.row.label, cell.column.title), found
    return dict(estimates.values())


@dataclass
class _Run:
    """Evaluates cells, in this process if there is no cluster."""

    setup: ExperimentSetup
    num_threads: int
    cluster: Cluster | None

    def cell(self, cell: Cell, progress: Progress | None) -> Evaluation:
        """Ask a cell's program its questions."""
        with self.program(cell) as program:
            return self._evaluate(program, cell, cell.column.split, progress)

    @contextmanager
    def program(self, cell: Cell) -> Iterator[Any]:
        """Yield a cell's program as it is asked: in the cluster or with a cache, and once for each `top_p`."""
        program, make_program = cast("Program", cell.program), cast("Callable[..., Program]", cell.make_program)
        questions = cell.examples if cell.row.candidates else []
        candidates = {example.question: example.get("candidates") for example in questions}
        lm = cast("dspy.BaseLM", cell.lm)
        models = [lm.copy(top_p=value, temperature=1.0) for value in cell.row.top_p] or [lm]  # BlendFilter, figure 5
        if self.cluster is not None:
            opening = {"quality": self.setup.quality, "allow_hub": self.setup.allow_hub}
            asks = [self.cluster(make_program, cell.index, opening, lm) for lm in models]

            def remote(_: Program, question: str) -> dspy.Prediction:
                return ask_each([functools.partial(ask, question, candidates.get(question)) for ask in asks])

            yield DelegatingProgram(program, remote)
            return
        index = program.retriever  # this one, unlike the caching one, can search a subset of its passages

        def local(cached: Program, question: str) -> dspy.Prediction:
            def ask(lm: dspy.BaseLM) -> dspy.Prediction:
                with dspy.context(lm=lm):
                    return ask_among(cached, index, question, candidates.get(question))

            return ask_each([functools.partial(ask, lm) for lm in models])

        with cache_results(program, self.setup.output / "cache") as cached:
            yield DelegatingProgram(cached, local)

    def identity(self, cell: Cell) -> str:
        """A digest that is the same for cells that share their answers."""
        program, row, column = cast("Program", cell.program), cell.row, cell.column
        asked = [column.dataset, column.split, column.drawn, column.metrics, lm_name(cell.lm)]
        return digest([reference_of(program.kind), state_of(program), row.engine, *asked, *_asking(row)])

    def _evaluate(self, program: Any, cell: Cell, split: str, progress: Progress | None = None) -> Evaluation:
        """Ask a program the questions of a split of a cell's data set, and continue from the file of its answers."""
        dataset, lm = cast("Dataset", cell.dataset), cast("dspy.BaseLM", cell.lm)
        origin = provenance_of(program, [], lm, metrics=cell.metrics, split=split)
        about = answers_about(origin, cell.metrics, dataset.questions(split))
        folder = "".join(c if c.isalnum() else "-" for c in cell.column.dataset).strip("-")
        name = f"{file_name(program.name)}-{folder}-{digest([about, *_asking(cell.row)])[:12]}.jsonl"
        return evaluate(
            program,
            dataset,
            cell.metrics,
            split=split,
            limit=self.setup.limit,
            run=Run(lm=lm, num_threads=self.num_threads, seed=self.setup.seed, progress=progress),
            output=self.setup.output / "answers" / name,
        )


def _asking(row: Row) -> list[Any]:
    """What the answers of a row depend on besides its program."""
    return [row.candidates, row.best_of_answers, *row.top_p]


def ask_each(asks: Sequence[Callable[[], dspy.Prediction]]) -> dspy.Prediction:
    """Call several functions that ask a question, one after the other.

    Returns:
        The first prediction. If there are several, its `answers` holds the answers of all, for the metric of the best
        one, and its cost is the sum of all.
    """
    predictions = [ask() for ask in asks]
    first = predictions[0]
    if len(predictions) > 1:
        first.answers = [prediction.answer for prediction in predictions]
        first.trace.cost = sum((prediction.trace.cost for prediction in predictions), Cost())
    return first


def _cell_result(
    cell: Cell, table: ExperimentTable, setup: ExperimentSetup, evaluation: Evaluation | None
) -> CellResult:
    """The measures of a cell, if it was run, beside the paper's figures in percent."""
    row, column, scale = cell.row_number, cell.column_number, table.paper.scale if table.paper else 1.0
    result = CellResult(row=row, column=column, reason=cell.reason, differs=paper_differences(cell, table, setup))
    for name, printed in table.printed(row, column).items():
        ours = evaluation.interval(name) if evaluation is not None and evaluation.defines(name) else None
        paper = printed if printed is None or name in COSTS else printed * scale
        result.figures.append(Figure(metric=name, ours=ours, paper=paper))
    if evaluation is not None:
        result.questions, result.failed = len(evaluation.records), len(evaluation.failures)
        result.unreadable, result.cut, result.uncounted = evaluation.spoilt().values()
        result.costs, result.provenance = evaluation.costs(), evaluation.provenance
        result.evidence = {name: evaluation.mean(name) for name in evaluation.evidence_metrics}
        result.fates = evaluation.evidence()
    return result
