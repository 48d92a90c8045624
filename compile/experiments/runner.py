"""Run a table: every program on every data set, question by question, continued where it was stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, cast

import dspy

from knowgap.compile.evaluation.evaluator import evaluate, evaluate_on_test
from knowgap.compile.evaluation.provenance import digest, lm_name, lm_settings, provenance_of
from knowgap.compile.evaluation.results import Evaluation
from knowgap.compile.evaluation.runner import resolve_lm
from knowgap.compile.evaluation.shared_cache import lm_cache, share
from knowgap.compile.evaluation.statistics import Comparison, paired_comparison
from knowgap.compile.experiments.cells import Cell, ExperimentSetup, prepare
from knowgap.compile.experiments.measures import is_cost, measure
from knowgap.compile.experiments.question_candidates import AmongCandidates
from knowgap.compile.experiments.result import CellResult, ExperimentResult, Figure, holm
from knowgap.compile.experiments.table import ExperimentTable, read_table
from knowgap.compile.study.budget import Meter, metering
from knowgap.errors import UsageError
from knowgap.programs.base import Program

__all__ = ["run_experiment"]

Progress = Callable[[int, int, str], None]
Spread = Callable[[Cell], Any]


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

    Every answer is written to `output` at once. The same call continues from there: a question that was answered is
    not asked again, whether the run was killed or came to its end. Lists of passages, scores of rerankers and answers
    of the language model are shared between rows.

    Args:
        table: a table, the name of one that comes with knowgap, or a TOML file.
        output: folder for answers, indexes and results.
        baseline: label of the row that the others are tested against, instead of the table's.
        num_threads: questions at a time.
        progress: called with questions done, questions in all, and what is being asked.
        prices: US dollars per million prompt and completion tokens, where DSPy does not know them.
        ray_address: a Ray cluster that answers the questions, or `local` for one on this machine.
        **setup: data, language model and so on: see `ExperimentSetup`.

    Raises:
        UsageError: an option that does not fit the table, or no data for any column.
        DataError: data that cannot be read or scored.
        LanguageModelUnreachable: the language model is gone; the same call goes on.
    """
    read = table if isinstance(table, ExperimentTable) else read_table(table)
    if baseline is not None and baseline not in [row.label for row in read.rows]:
        raise UsageError(f"the baseline {baseline!r} is not the label of a row of {read.name}")
    given = ExperimentSetup(output=Path(output), **setup)
    default = resolve_lm(given.lm)
    cells = prepare(read, given, progress=progress)
    for cell in cells:
        cell.lm = cell.lm or default
    run = _Run(read, given, num_threads, progress, sum(len(cell.examples) for cell in cells if cell.program))
    meter = Meter(prices)
    with lm_cache(given.output / "lm-cache"), metering(meter), _spreading(ray_address, given, meter) as spread:
        found = [run.cell(cell, spread) for cell in cells]
    results = [result for result, _ in found]
    label = baseline or read.baseline or next((c.row.label for c in cells if c.program is not None), "")
    _compare(read, label, results, [evaluation for _, evaluation in found])
    experiment = ExperimentResult(
        table=read, baseline=label, cells=results, spent=meter.spent, limit=given.limit, seed=given.seed
    )
    experiment.save(given.output)
    return experiment


def _spreading(ray_address: str | None, setup: ExperimentSetup, meter: Meter) -> AbstractContextManager[Spread | None]:
    if not ray_address:
        return nullcontext(None)
    from knowgap.compile.experiments.ray import spreading

    return spreading(ray_address, setup, meter)


class _Run:
    """The cells of one run, one after another; questions within a cell at the same time."""

    def __init__(
        self, table: ExperimentTable, setup: ExperimentSetup, num_threads: int, progress: Progress | None, total: int
    ):
        self.table, self.setup, self.num_threads = table, setup, num_threads
        self.progress, self.total, self.done = progress, total, 0

    def cell(self, cell: Cell, spread: Spread | None) -> tuple[CellResult, Evaluation | None]:
        """Evaluate a cell, or say why not."""
        result = CellResult(row=cell.row_number, column=cell.column_number, reason=cell.reason, differs=cell.differs)
        if cell.program is None:
            return result, None
        try:
            _label_questions(cell, self)
            evaluation = self._evaluate(cell, spread)
        except _LeftOut as reason:
            result.reason = str(reason)
            return result, None
        finally:
            self.done += len(cell.examples)
        result.questions, result.failed = len(evaluation.records), len(evaluation.failures)
        result.costs = evaluation.costs()
        result.provenance = evaluation.provenance
        printed = self.table.printed(cell.row_number, cell.column_number)
        scale = self.table.paper.scale if self.table.paper else 1.0
        for name, figure in zip(cell.column.metrics, printed, strict=True):
            theirs = None if figure is None else figure if is_cost(name) else figure * scale
            result.figures.append(Figure(metric=name, ours=measure(evaluation, name), paper=theirs))
        return result, evaluation

    def _evaluate(self, cell: Cell, spread: Spread | None) -> Evaluation:
        program = cast("Program", cell.program)
        if spread is not None:
            return self.evaluate(cell, spread(cell))
        shared, close = share(program, self.setup.output / "cache")
        try:
            among = AmongCandidates(shared, program.retriever, cell.examples) if cell.row.candidates else shared
            return self.evaluate(cell, cast("Program", among))
        finally:
            close()

    def evaluate(self, cell: Cell, program: Program, **over: Any) -> Evaluation:
        """Ask a program the questions of a cell, continuing from its file of answers."""
        cell_lm, dataset, split = cell.lm, cell.dataset, over.pop("split", cell.column.split)
        examples = over.pop("examples", cell.examples)
        origin = provenance_of(program, examples, cast("dspy.BaseLM", cell_lm), split=split)
        identity = digest(
            [
                [origin.program, origin.state, origin.reranker, origin.entailment, cell.row.candidates],
                [origin.data, split, lm_name(cell_lm), lm_settings(cell_lm), origin.retriever],
                [list(cell.metrics), cell.row.best_of_answers],
            ]
        )
        file = self.setup.output / "answers" / f"{origin.program}-{_slug(cell.column.dataset)}-{identity[:12]}.jsonl"
        what = f"{cell.row.label} on {cell.column.title}"
        options: dict[str, Any] = {
            "lm": cell_lm,
            "num_threads": self.num_threads,
            "seed": self.setup.seed,
            "output": file,
            "progress": self._reporter(what) if self.progress else None,
        }
        if split == "test" and dataset is not None:
            return evaluate_on_test(program, dataset, cell.metrics, limit=self.setup.limit, **options)
        facts = {"dataset": dataset.name, "dataset_fingerprint": dataset.fingerprint} if dataset else {}
        return evaluate(program, examples, cell.metrics, split=split, provenance=facts, **options)

    def _reporter(self, what: str) -> Progress:
        def report(done: int, total: int, text: str) -> None:
            cast("Progress", self.progress)(min(self.done + done, self.total), self.total, f"{what}: {text}")

        return report


class _LeftOut(Exception):
    """A cell that cannot be run, and why."""


def _label_questions(cell: Cell, run: _Run) -> None:
    """Give SKR its labelled questions: those of the train split, answered without and with retrieval.

    Raises:
        _LeftOut: the data set has no train split.
    """
    if cell.row.program != "skr":
        return
    from knowgap.programs.baselines.direct import Direct
    from knowgap.programs.baselines.rag import RAG
    from knowgap.programs.baselines.skr import SKR

    train = list(cell.dataset.splits.get("train", ()))[: run.setup.limit] if cell.dataset else []
    if not train or cell.column.split == "train":
        raise _LeftOut("SKR learns from a train split, and the data have none beside the split that is asked")
    program = cast("Program", cell.program)
    main = next(iter(cell.metrics))
    before, total, run.progress = run.progress, run.total, None
    try:
        parts = (Direct(style=program.values()["style"]), RAG(program.retriever, style=program.values()["style"]))
        scores = [run.evaluate(cell, part, split="train", examples=train).scores(main) for part in parts]
    finally:
        run.progress, run.total = before, total
    labelled = [
        {"question": e.question, "direct": scores[0][e.id] >= 0.5, "retrieved": scores[1][e.id] >= 0.5} for e in train
    ]
    cell.program = SKR(program.retriever, examples=labelled, **program.values())


def _compare(
    table: ExperimentTable, baseline: str, results: Sequence[CellResult], evaluations: Sequence[Evaluation | None]
) -> None:
    """Test every row against the baseline, column by column, and correct for the number of rows (Holm)."""
    for number, column in enumerate(table.columns):
        here = [(r, e) for r, e in zip(results, evaluations, strict=True) if r.column == number and e is not None]
        base = next((e for r, e in here if table.rows[r.row].label == baseline), None)
        others = [(r, e) for r, e in here if e is not base]
        if base is None:
            continue
        for place, name in enumerate(column.metrics):
            if is_cost(name):
                continue
            for result, evaluation in others:
                result.figures[place].comparison = _pair(base, evaluation, name)
            holm([result.figures[place] for result, _ in others])


def _pair(before: Evaluation, after: Evaluation, name: str) -> Comparison | None:
    """The comparison on the questions for which both have a score; None where there are none."""
    left, right = ({r.id: r.scores.get(name) for r in e.records} for e in (before, after))
    both = [key for key, score in left.items() if score is not None and right.get(key) is not None]
    if not both:
        return None
    x, y = ([cast("float", scores[key]) for key in both] for scores in (left, right))
    return paired_comparison(name, x, y, after.provenance.seed)


def _slug(text: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in text).strip("-")
