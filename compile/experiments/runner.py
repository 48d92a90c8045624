"""Run a table: ask every program the questions of every data set, and go on where a run was stopped.

A run keeps everything in its output folder: a file of answers for each program, data set and language model
(`answers/`, see `compile.evaluation.answers_file`), indexes (`indexes/`), retrieved lists and scores of models
(`cache/`), answers of language models (`lm-cache/`). The same call reads them again and asks only what is missing,
whether the run was killed or came to its end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import dspy

from knowgap.compiling.data import Dataset
from knowgap.compiling.evaluation.costs import COSTS
from knowgap.compiling.evaluation.delegating_program import DelegatingProgram, ask_among
from knowgap.compiling.evaluation.evaluator import evaluate_split
from knowgap.compiling.evaluation.provenance import digest, provenance_of
from knowgap.compiling.evaluation.ray import Cluster, connect
from knowgap.compiling.evaluation.results import Evaluation, compare
from knowgap.compiling.evaluation.runner import resolve_lm
from knowgap.compiling.evaluation.shared_cache import cache_results, lm_cache
from knowgap.compiling.experiments.cells import Cell, ExperimentSetup, prepare
from knowgap.compiling.experiments.measures import measure
from knowgap.compiling.experiments.paper_differences import paper_differences
from knowgap.compiling.experiments.result import CellResult, ExperimentResult, Figure, correct_p_values
from knowgap.compiling.experiments.samples import ask_each, sampling_lms
from knowgap.compiling.experiments.table import ExperimentTable, read_table
from knowgap.errors import UsageError
from knowgap.programs.base import Program
from knowgap.programs.baselines.direct import Direct
from knowgap.programs.baselines.rag import RAG
from knowgap.programs.baselines.skr import SKR
from knowgap.programs.trace.usage import UsageTracker, track_usage
from knowgap.storage.progress import Progress

__all__ = ["run_experiment"]

_IDENTITY = {"program", "state", "reranker", "entailment", "data", "split", "lm", "lm_settings", "retriever"}


def run_experiment(
    table: ExperimentTable | str | Path,
    *,
    output: str | Path,
    baseline: str | None = None,
    num_threads: int = 4,
    progress: Progress | None = None,
    prices: tuple[float, float] | None = None,
    ray_address: str | None = None,
    **setup: Any,
) -> ExperimentResult:
    """Run a table and save its results: `experiment.json` and `experiment.csv`.

    Every answer is written to `output` at once, and the same call goes on from there. Rows share lists of passages,
    scores of rerankers and answers of the language model.

    Args:
        table: a table, the name of one that comes with knowgap, or a TOML file.
        output: folder for answers, indexes and results.
        baseline: label of the row that the others are tested against, instead of the table's, or of the first that is
            run.
        num_threads: questions at a time.
        progress: called with questions done, questions in all, and what is being asked.
        prices: US dollars per million prompt and completion tokens, if DSPy does not know them.
        ray_address: a Ray cluster that answers the questions, or `local` for one on this machine.
        **setup: data, language model and so on: see `ExperimentSetup`.

    Raises:
        UsageError: an option that does not fit the table, or no data for any column.
        DataError: data that cannot be read or scored.
        LanguageModelUnreachable: the language model is gone; the same call goes on.
    """
    table = table if isinstance(table, ExperimentTable) else read_table(table)
    options = ExperimentSetup(output=Path(output), **setup)
    options = replace(options, lm=resolve_lm(options.lm))
    cells = prepare(table, options, baseline=baseline, progress=progress)
    tracker, results = UsageTracker(prices), []
    cluster = connect(ray_address, tracker, options.output / "lm-cache") if ray_address else nullcontext()
    with lm_cache(options.output / "lm-cache"), track_usage(tracker), cluster as connected:
        run = _Run(options, num_threads, connected)
        for number, cell in enumerate(cells):
            evaluation = None
            if cell.program is not None:
                evaluation = run.cell(cell, _cell_progress(progress, cells, number))
            results.append((_cell_result(cell, table, options, evaluation), evaluation))
    ran = [cell.row.label for cell in cells if cell.program is not None]
    label = baseline or (table.baseline if table.baseline in ran else next(iter(ran), ""))
    _compare_with_baseline(table, label, results)
    experiment = ExperimentResult(
        table=table,
        baseline=label,
        cells=[result for result, _ in results],
        spent=tracker.usage,
        limit=options.limit,
        seed=options.seed,
    )
    experiment.save(options.output)
    return experiment


@dataclass
class _Run:
    """Evaluates cells, in this process if there is no cluster."""

    setup: ExperimentSetup
    num_threads: int
    cluster: Cluster | None

    def cell(self, cell: Cell, progress: Progress | None) -> Evaluation:
        """Ask a cell's program its questions."""
        program, make_program = cast("Program", cell.program), cast("Callable[..., Program]", cell.make_program)
        if isinstance(program, SKR):
            make_program = functools.partial(SKR, examples=self._labels(program, cell), **program.values())
            program = make_program(retriever=program.retriever)
        questions = cell.examples if cell.row.candidates else []
        candidates = {example.question: example.get("candidates") for example in questions}
        models = sampling_lms(cast("dspy.BaseLM", cell.lm), cell.row.top_p)
        if self.cluster is not None:
            asks = [self.cluster(make_program, cell.index, self.setup.quality, lm) for lm in models]

            def remote(_: Program, question: str) -> dspy.Prediction:
                return ask_each([functools.partial(ask, question, candidates.get(question)) for ask in asks])

            return self._evaluate(DelegatingProgram(program, remote), cell, cell.column.split, progress)
        index = program.retriever  # can be told to search some passages only, which the caching one cannot

        def local(cached: Program, question: str) -> dspy.Prediction:
            def ask(lm: dspy.BaseLM) -> dspy.Prediction:
                with dspy.context(lm=lm):
                    return ask_among(cached, index, question, candidates.get(question))

            return ask_each([functools.partial(ask, lm) for lm in models])

        with cache_results(program, self.setup.output / "cache") as cached:
            return self._evaluate(DelegatingProgram(cached, local), cell, cell.column.split, progress)

    def _labels(self, program: SKR, cell: Cell) -> list[dict[str, Any]]:
        """For each train question, whether the model answers it rightly by itself, and with retrieval."""
        style, metric = program.values()["style"], next(iter(cell.metrics))
        answerers = Direct(style=style), RAG(program.retriever, style=style)
        direct, retrieved = (self._evaluate(answerer, cell, "train") for answerer in answerers)
        alone, helped = direct.scores(metric), retrieved.scores(metric)
        return [
            {"question": record.question, "direct": alone[record.id] >= 0.5, "retrieved": helped[record.id] >= 0.5}
            for record in direct.records
        ]

    def _evaluate(self, program: Any, cell: Cell, split: str, progress: Progress | None = None) -> Evaluation:
        """Ask a program the questions of a split of a cell's data set; go on from the file of their answers."""
        dataset, lm = cast("Dataset", cell.dataset), cast("dspy.BaseLM", cell.lm)
        examples = dataset.questions(split, self.setup.limit)
        found = provenance_of(program, examples, lm, metrics=cell.metrics, split=split)
        origin = found.model_dump(include=_IDENTITY | ({"outside"} if found.outside else set()))
        answering = [cell.row.candidates, cell.row.best_of_answers, *cell.row.top_p]
        identity = digest([origin, list(cell.metrics), *answering])[:12]
        folder = "".join(c if c.isalnum() else "-" for c in cell.column.dataset).strip("-")
        return evaluate_split(
            program,
            dataset,
            split,
            cell.metrics,
            limit=self.setup.limit,
            lm=lm,
            num_threads=self.num_threads,
            seed=self.setup.seed,
            output=self.setup.output / "answers" / f"{program.name}-{folder}-{identity}.jsonl",
            progress=progress,
        )


def _cell_progress(progress: Progress | None, cells: Sequence[Cell], number: int) -> Progress | None:
    """Report a cell's progress as that of all cells."""
    if progress is None:
        return None
    sizes = [len(cell.examples) if cell.program is not None else 0 for cell in cells]
    what = f"{cells[number].row.label} on {cells[number].column.title}"
    return lambda done, _, text: progress(sum(sizes[:number]) + done, sum(sizes), f"{what}: {text}")


def _cell_result(
    cell: Cell, table: ExperimentTable, setup: ExperimentSetup, evaluation: Evaluation | None
) -> CellResult:
    """The measures of a cell, if it was run, beside the paper's figures in percent."""
    row, column, scale = cell.row_number, cell.column_number, table.paper.scale if table.paper else 1.0
    result = CellResult(row=row, column=column, reason=cell.reason, differs=paper_differences(cell, table, setup))
    for name, printed in table.printed(row, column).items():
        ours = measure(evaluation, name) if evaluation is not None else None
        paper = printed if printed is None or name in COSTS else printed * scale
        result.figures.append(Figure(metric=name, ours=ours, paper=paper))
    if evaluation is not None:
        result.questions, result.failed = len(evaluation.records), len(evaluation.failures)
        result.unreadable, result.cut = evaluation.spoilt()["unreadable"], evaluation.spoilt()["cut"]
        result.costs, result.provenance = evaluation.costs(), evaluation.provenance
        result.evidence = {name: evaluation.mean(name) for name in evaluation.evidence_metrics}
        result.fates = evaluation.evidence()
    return result


def _compare_with_baseline(
    table: ExperimentTable, baseline: str, results: Sequence[tuple[CellResult, Evaluation | None]]
) -> None:
    """Test every row against the baseline on each column and score, corrected for the number of rows."""
    for number, column in enumerate(table.columns):
        evaluated = [(r, e) for r, e in results if r.column == number and e is not None]
        reference = next((e for r, e in evaluated if table.rows[r.row].label == baseline), None)
        if reference is None:
            continue
        for place, name in enumerate(column.metrics):
            if name not in COSTS:
                for result, evaluation in evaluated:
                    if evaluation is not reference:
                        with suppress(UsageError):  # no question has a score in both
                            result.figures[place].comparison = compare(reference, evaluation, name)
                correct_p_values([result.figures[place] for result, _ in evaluated])
