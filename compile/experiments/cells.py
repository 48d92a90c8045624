"""From a table to programs that can be asked: data opened, indexes built, hyperparameters set, differences named."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dspy

from knowgap.compile.data import LAYOUTS, Dataset, load_dataset
from knowgap.compile.evaluation.metrics import Metric
from knowgap.compile.evaluation.provenance import lm_name, model_name
from knowgap.compile.experiments.measures import score_metrics
from knowgap.compile.experiments.table import TASKS, Column, ExperimentTable, Row
from knowgap.errors import KnowgapError, UnknownName, UsageError
from knowgap.programs import PROGRAMS, get_program
from knowgap.programs.base import Program
from knowgap.retrieval.index.engines import ENGINES, engine_class, open_index
from knowgap.retrieval.index.search_settings import Quality

__all__ = ["CONFIRMABLE", "Cell", "ExperimentSetup", "prepare"]

CONFIRMABLE = ("corpus", "questions", "models")
"""What the user can say to be the paper's, since no program can tell."""

_PAPERS_RERANKER = "bge-reranker-base"


@dataclass(frozen=True, kw_only=True)
class ExperimentSetup:
    """What a table is run with.

    Args:
        data: file or folder by data set name.
        corpora: passages by data set name, instead of those that come with the questions.
        indexes: index folder by data set name; others are built in `output`.
        lm: the language model of every row.
        lms: language models by the paper's name of the one they stand for, for rows that name another than the rest.
        engine: what builds indexes, instead of the table's.
        quality: how thoroughly the indexes are searched; see `open_index`.
        reranker: of the programs that rerank.
        entailment: entailment model of the programs that check it.
        rows: labels of the rows that are run; all where None.
        limit: the first so many questions of each data set.
        seed: of samples, splits and intervals.
        confirmed: which of `CONFIRMABLE` are the paper's own.
        output: folder of answers, indexes, caches and reports.
    """

    output: Path
    data: Mapping[str, str | Path] = field(default_factory=dict)
    corpora: Mapping[str, str | Path] = field(default_factory=dict)
    indexes: Mapping[str, str | Path] = field(default_factory=dict)
    lm: dspy.BaseLM | None = None
    lms: Mapping[str, dspy.BaseLM] = field(default_factory=dict)
    engine: str | None = None
    quality: Quality | None = None
    reranker: Any = None
    entailment: Any = None
    rows: Collection[str] | None = None
    limit: int | None = None
    seed: int = 0
    confirmed: Collection[str] = ()


@dataclass
class Cell:
    """A row on a column: what is asked, and of what."""

    row_number: int
    column_number: int
    row: Row
    column: Column
    program: Program | None = None
    lm: dspy.BaseLM | None = None
    dataset: Dataset | None = None
    examples: list[dspy.Example] = field(default_factory=list)
    index: Path | None = None
    metrics: dict[str, Metric] = field(default_factory=dict)
    reason: str = ""
    differs: list[str] = field(default_factory=list)

    @property
    def questions(self) -> int:
        """How many are asked, or would be by the paper."""
        return len(self.examples) if self.dataset is not None else self.column.questions


def prepare(table: ExperimentTable, setup: ExperimentSetup, *, dry: bool = False, progress: Any = None) -> list[Cell]:
    """The cells of a table, row by row, ready to be asked.

    Args:
        table: what is compared.
        setup: what it is run with.
        dry: build no index, and count on the paper's number of questions where data are not named.
        progress: called while indexes are built.

    Raises:
        UsageError: an option that fits nothing in the table, or no data for any column.
        DataError: data that cannot be read.
    """
    _check(table, setup)
    shelf = _Shelf(table, setup, dry, progress)
    cells = []
    for r, row in enumerate(table.rows):
        for c, column in enumerate(table.columns):
            if setup.rows is not None and row.label not in setup.rows:
                continue
            cell = Cell(r, c, row, column)
            _fill(cell, table, setup, shelf, dry)
            cells.append(cell)
    if not dry and not any(cell.dataset for cell in cells):
        missing = " ".join(f"{name}=PATH" for name in dict.fromkeys(column.dataset for column in table.columns))
        raise UsageError(f"no data for any column of {table.name}: name them ({missing})")
    return cells


def _check(table: ExperimentTable, setup: ExperimentSetup) -> None:
    known = {column.dataset for column in table.columns}
    for what, given in (("data", setup.data), ("corpus", setup.corpora), ("index", setup.indexes)):
        for name in given:
            if name not in known:
                raise UnknownName.among(f"data set of {table.name} ({what})", name, sorted(known))
    for label in setup.rows or ():
        if label not in {row.label for row in table.rows}:
            raise UnknownName.among(f"row of {table.name}", label, [row.label for row in table.rows])
    for name in setup.confirmed:
        if name not in CONFIRMABLE:
            raise UnknownName.among("part of the setting", name, CONFIRMABLE)
    if setup.engine is not None and setup.engine not in ENGINES:
        raise UnknownName.among("engine", setup.engine, ENGINES)
    if setup.limit is not None and setup.limit < 1:
        raise UsageError(f"limit {setup.limit}: ask at least one question")


class _Shelf:
    """Data sets and retrievers, each opened once."""

    def __init__(self, table: ExperimentTable, setup: ExperimentSetup, dry: bool, progress: Any):
        self.table, self.setup, self.dry, self.progress = table, setup, dry, progress
        self._data: dict[tuple[str, str, str], Dataset | None] = {}
        self._retrievers: dict[Path, Any] = {}

    def dataset(self, column: Column) -> Dataset | None:
        """The column's data; None where their path is not named."""
        key = (column.dataset, column.split, column.sampling)
        if key not in self._data:
            self._data[key] = self._load(column)
        return self._data[key]

    def _load(self, column: Column) -> Dataset | None:
        name, source = column.dataset, self.setup.data.get(column.dataset)
        if source is None and name != "sample":
            return None
        corpus = self.setup.corpora.get(name)
        whole = source is not None and Path(source).is_file()
        options: dict[str, Any] = {"corpus": corpus, "seed": self.setup.seed, "sampling": column.sampling or None}
        if whole:
            options["split_as"] = column.split
        if source is not None and name in LAYOUTS and Path(source).exists():
            options["layout"] = name
        return load_dataset(source if source is not None else name, **options)

    def retriever(self, dataset: Dataset, column: Column, engine: str) -> tuple[Any, Path | None]:
        """The index of a data set and its folder; one is built from its passages where none is named."""
        given = self.setup.indexes.get(column.dataset)
        if given is None and not dataset.corpus:
            return None, None
        folder = Path(given) if given is not None else self.setup.output / "indexes" / dataset.index_name(engine)
        if folder not in self._retrievers:
            if self.dry and given is None and not folder.exists():
                return None, folder
            self._retrievers[folder] = _open_or_build(
                dataset, folder, engine, self.setup.quality, given is not None, self.progress
            )
        return self._retrievers[folder], folder


def _open_or_build(
    dataset: Dataset, folder: Path, engine: str, quality: Quality | None, given: bool, progress: Any
) -> Any:
    if not given and not folder.exists():
        built = engine_class(engine).build(dataset.corpus, folder, progress=progress)
        if quality is None:
            return built
    return open_index(folder, quality=quality)


def _fill(cell: Cell, table: ExperimentTable, setup: ExperimentSetup, shelf: _Shelf, dry: bool) -> None:
    """Make a cell's program, or say why there is none."""
    row, column = cell.row, cell.column
    if row.left_out or (row.datasets and column.dataset not in row.datasets):
        cell.reason = row.left_out or "not part of the table"
        return
    cell.dataset = shelf.dataset(column)
    if cell.dataset is None and not dry:
        cell.reason = f"no data: name the file or folder of {column.dataset}"
        return
    if cell.dataset is not None:
        cell.examples = cell.dataset.questions(column.split, setup.limit)
    engine = setup.engine or row.engine or table.engine
    retriever = None
    if cell.dataset is not None:
        retriever, cell.index = shelf.retriever(cell.dataset, column, engine)
    try:
        cell.program, dropped = _program(cell, setup, retriever)
    except KnowgapError as error:
        raise UsageError(f"{table.name}, row {row.label!r} on {column.title}: {error}") from error
    if cell.program.needs_retriever and retriever is None and not dry:
        raise UsageError(f"{column.dataset} brings no passages: name an index or a corpus for it")
    named = row.lm or (table.paper.lm if table.paper else "")
    cell.lm = setup.lms.get(named, setup.lm)
    cell.metrics = score_metrics(column.metrics, best_of_answers=row.best_of_answers)
    actual = engine if column.dataset not in setup.indexes else str(getattr(retriever, "name", "") or engine)
    cell.differs = _differences(cell, table, setup, actual, dropped)


def _program(cell: Cell, setup: ExperimentSetup, retriever: Any) -> tuple[Program, bool]:
    """The program of a cell, and whether a threshold of the paper's was left to the reranker."""
    from knowgap.compile.experiments.probes import PROBES

    row, column = cell.row, cell.column
    if row.artifact:
        from knowgap.compile.artifact import load_artifact

        return load_artifact(
            row.artifact, retriever=retriever, reranker=setup.reranker, entailment=setup.entailment
        ), False
    if row.program in PROBES:
        return PROBES[row.program](cell.examples, retriever, setup.seed, **row.settings), False
    if row.program not in PROGRAMS:
        raise UnknownName.among("program", row.program, [*PROGRAMS, *PROBES])
    cls = get_program(row.program)
    preset = row.preset or (column.task if column.task in cls.presets else "")
    values: dict[str, Any] = {"style": TASKS[column.task]} if "style" in cls.hyperparameters() else {}
    values |= {**(cls.preset(preset) if preset else {}), **row.settings, **row.by_dataset.get(column.dataset, {})}
    dropped = values.get("delta") is not None and _PAPERS_RERANKER not in model_name(setup.reranker).lower()
    if dropped:
        del values["delta"]  # a threshold means nothing on another reranker's scale
    parts = {"reranker": setup.reranker, "entailment": setup.entailment}
    given = {name: part for name, part in parts.items() if part is not None and name in cls.part_names}
    return cls(retriever, **given, **values), dropped


def _differences(cell: Cell, table: ExperimentTable, setup: ExperimentSetup, engine: str, dropped: bool) -> list[str]:
    """In what a cell's setting is not the paper's, in words; empty where nothing is known to differ."""
    paper, row, column, program = table.paper, cell.row, cell.column, cell.program
    if (
        paper is None
        or program is None
        or not any(f is not None for f in table.printed(cell.row_number, cell.column_number))
    ):
        return []
    found = []
    ours, theirs = lm_name(cell.lm), row.lm or paper.lm
    if ours.rpartition("/")[2].lower() != theirs.lower():
        found.append(f"language model: {ours or 'none yet'}, not {theirs}")
    if program.needs_retriever:
        expected = row.engine or paper.engine
        if engine != expected:
            found.append(f"retriever: {engine}, not {expected}")
        if "corpus" not in setup.confirmed:
            own = column.dataset in setup.corpora or column.dataset in setup.indexes
            what = "a corpus of one's own" if own else "the passages that come with the questions"
            found.append(f"corpus: {what}, not {paper.corpus}")
    if "questions" not in setup.confirmed:
        if cell.dataset is not None and cell.questions == column.questions:
            found.append(f"questions: {cell.questions}, as many as the paper's, perhaps others")
        else:
            found.append(
                f"questions: {cell.questions if cell.dataset is not None else 'none yet'}, not {column.questions}"
            )
    models = [part for name in ("reranker", "entailment") if (part := program.parts().get(name)) is not None]
    if paper.models and models and "models" not in setup.confirmed:
        names = ", ".join(map(model_name, models))
        found.append(f"reranker and entailment: {names}, not {paper.models}")
    if dropped:
        found.append("relevance threshold: the reranker's own, since the paper's is on another scale")
    shown = paper.demonstrations if row.demonstrations is None else row.demonstrations
    if shown and not row.artifact:
        found.append(f"demonstrations: none, not {shown}")
    if "knowledge_tokens" in column.metrics and any(
        name == "knowledge_tokens" and figure is not None
        for name, figure in zip(column.metrics, table.printed(cell.row_number, cell.column_number), strict=True)
    ):
        found.append("knowledge tokens: words, where the paper counts its language model's tokens")
    return [*found, *([row.differs] if row.differs else [])]
