"""The cells of a table, ready to be run, and how they differ from the paper's."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import dspy

from knowgap.compiling.artifact import artifact_class, load
from knowgap.compiling.data import Dataset, load_dataset
from knowgap.compiling.data.dataset import SPLITS
from knowgap.compiling.data.registry import layout_named
from knowgap.compiling.evaluation.metrics import Metric
from knowgap.compiling.evaluation.provenance import lm_name, model_name, retriever_facts
from knowgap.compiling.experiments.probes import PROBES, score_metrics
from knowgap.compiling.experiments.table import TASKS, Column, ExperimentTable, Row
from knowgap.errors import KnowgapError, UnknownName, UsageError
from knowgap.plugins import is_reference
from knowgap.programs import PROGRAMS, get_program
from knowgap.programs.base import PAPER, Program
from knowgap.programs.hyperparameters import fit_to_reranker
from knowgap.programs.modules import ModuleFactory
from knowgap.retrieval.index.engines import ENGINES, open_index, open_or_build, outside_retriever
from knowgap.retrieval.index.search_settings import Quality

AS_PAPER = ("corpus", "questions", "models")
"""Parts of the setting that only the user can know to be the paper's own."""

CANDIDATES = "each question's own paragraphs"
"""The corpus of a row that searches candidates only, in the words of the tables."""


@dataclass(frozen=True, kw_only=True)
class ExperimentSetup:
    """The setting in which a table is run.

    Args:
        output: folder of answers, indexes, caches and results.
        data: file or folder by data set name.
        corpora: passages by data set name, instead of those that come with the questions.
        indexes: index folder, or retriever from outside, by data set name; the others are built in `output`.
        lm: the language model of every row.
        lms: language models by the paper's name of the model that they replace, for rows that name their own.
        engine: index engine, instead of the table's.
        quality: how thoroughly the indexes are searched; see `open_index`.
        reranker: reranker of the programs that rerank.
        entailment: entailment model of the programs that check entailment.
        rows: labels of the rows to run; None for all.
        limit: how many questions of each data set are asked at most.
        seed: the seed of samples, splits and intervals.
        as_paper: which of `AS_PAPER` are the paper's own.
        allow_hub: names of models on the Hugging Face hub that may be fetched if an artifact or an index names them.
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
    as_paper: Collection[str] = ()
    allow_hub: Collection[str] = ()

    def imports(self, table: ExperimentTable) -> list[str]:
        """The programs and metrics from outside, as `module:Name`, whose modules are imported when a table is run."""
        cells = itertools.product(table.rows, table.columns)
        chosen = [(row, column) for row, column in cells if self.rows is None or row.label in self.rows]
        return list(dict.fromkeys(name for row, column in chosen for name in _imports(row, column)))

    def check(self, table: ExperimentTable, baseline: str | None = None, *, dry: bool = False) -> list[str]:
        """Refuse what does not fit a table, and every name that does not exist, before anything is loaded or asked.

        A dry run imports no module that the table names, and does not check the cells that need one. Returns which of
        "reranker" and "entailment" are given although no program of the rows has such a part.

        Raises:
            UnknownName: a program, preset, hyperparameter, metric, engine, data set, row, language model or part of the
                setting that does not exist.
            UsageError: a limit below 1, a baseline that is not run, or values that are out of bounds.
        """
        datasets, labels = [column.dataset for column in table.columns], [row.label for row in table.rows]
        rows = [row for row in table.rows if self.rows is None or row.label in self.rows]
        engines = [engine for engine in (self.engine, table.engine, *(row.engine for row in rows)) if engine]
        named = [name for row in rows for name in (*row.datasets, *row.by_dataset)]
        papers = [name for name in (table.paper and table.paper.lm, *(row.lm for row in rows)) if name]
        for kind, names, known in (
            (f"data set of {table.name}", [*self.data, *self.corpora, *self.indexes, *named], datasets),
            (f"row of {table.name}", [*(self.rows or ()), *([baseline] if baseline is not None else [])], labels),
            (f"language model of {table.name}", self.lms, papers),
            ("part of the setting", self.as_paper, AS_PAPER),
            ("engine", engines, ENGINES),
            ("split", [column.split for column in table.columns], SPLITS),
        ):
            for name in names:
                if name not in known:
                    raise UnknownName.among(kind, name, known)
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"limit {self.limit}: ask at least one question")
        if baseline is not None and baseline not in [row.label for row in rows]:
            raise UsageError(f"the baseline {baseline!r} is not one of the rows that are run")
        parts: set[str] = set()
        for row, column in itertools.product(rows, table.columns):
            if row.why_not_on(column.dataset):
                continue
            if dry and _imports(row, column):
                parts.update(("reranker", "entailment"))  # the program may have them
                continue
            try:
                score_metrics(column.metrics)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # they come when the programs are made for their index
                    parts.update(_program_factory(Cell(0, 0, row, column), self)[0]().part_names)
            except KnowgapError as error:
                raise UsageError(f"{table.name}, row {row.label!r} on {column.title}: {error}") from error
        return [name for name in ("reranker", "entailment") if getattr(self, name) is not None and name not in parts]


@dataclass
class Cell:
    """A row on a column, with its questions and its program.

    Attributes:
        reason: why the cell is not run, and has no program; empty if it is run.
        dataset: None if its data are not named, which a dry run accepts.
        make_program: makes the program from a retriever.
        index: folder of the index, or the name of a retriever from outside; None if the data set brings no passages.
        engine: the engine of the retriever, which the user may have named.
        delta_left_out: whether the paper's relevance threshold was left out, because it is on another reranker's scale.
    """

    row_number: int
    column_number: int
    row: Row
    column: Column
    reason: str = ""
    dataset: Dataset | None = None
    examples: list[dspy.Example] = field(default_factory=list)
    make_program: Callable[..., Program] | None = None
    program: Program | None = None
    lm: dspy.BaseLM | None = None
    index: Path | str | None = None
    engine: str = ""
    metrics: dict[str, Metric] = field(default_factory=dict)
    delta_left_out: bool = False

    @property
    def questions(self) -> int:
        """How many questions are asked; the paper's number, or 500, if the data are not named."""
        return len(self.examples) if self.dataset is not None else self.column.questions or 500


def prepare(
    table: ExperimentTable,
    setup: ExperimentSetup,
    *,
    baseline: str | None = None,
    dry: bool = False,
    progress: Any = None,
) -> list[Cell]:
    """Prepare the cells of a table, row by row.

    A dry run builds no index and imports no module that the table names, but also makes programs for data sets that are
    not named. `progress` is called while indexes are built.

    Raises:
        UsageError: an option that does not fit the table, or no data for any column.
        DataError: data that cannot be read.
    """
    setup.check(table, baseline, dry=dry)
    preparation = _Preparation(table, setup, dry, progress)
    cells = [
        preparation.cell(row, column)
        for row in range(len(table.rows))
        if setup.rows is None or table.rows[row].label in setup.rows
        for column in range(len(table.columns))
    ]
    if not dry and not any(cell.dataset for cell in cells):
        missing = " ".join(f"{name}=PATH" for name in dict.fromkeys(column.dataset for column in table.columns))
        raise UsageError(f"no data for any column of {table.name}: name the files ({missing})")
    return cells


class _Preparation:
    """Makes cells; loads every data set and opens every index once."""

    def __init__(self, table: ExperimentTable, setup: ExperimentSetup, dry: bool, progress: Any):
        self.table, self.setup, self.dry, self.progress = table, setup, dry, progress
        self.datasets: dict[tuple[str, str, str], Dataset] = {}
        self.retrievers: dict[Path | str | None, Any] = {}

    def cell(self, row_number: int, column_number: int) -> Cell:
        """A cell with its program, or with the reason why there is none."""
        row, column = self.table.rows[row_number], self.table.columns[column_number]
        cell = Cell(row_number, column_number, row, column)
        cell.reason = row.why_not_on(column.dataset)
        if cell.reason:
            return cell
        if self.dry and (names := _imports(row, column)):
            cell.reason = f"imports {', '.join(names)}"
            return cell
        cell.dataset = self.dataset(column)
        if cell.dataset is None and not self.dry:
            cell.reason = f"no data: name the file or folder of {column.dataset}"
            return cell
        cell.engine, retriever = self.setup.engine or row.engine or self.table.engine, None
        if cell.dataset is not None:
            cell.examples = cell.dataset.questions(column.split, self.setup.limit)
            retriever, cell.index = self.retriever(cell.dataset, column, cell.engine)
        if column.dataset in self.setup.indexes:
            cell.engine = str(retriever_facts(retriever).get("name", cell.engine))
        papers_lm = row.lm or (self.table.paper.lm if self.table.paper else "")
        cell.lm = self.setup.lms.get(papers_lm, self.setup.lm)
        cell.make_program, cell.delta_left_out = _program_factory(cell, self.setup)
        with dspy.context(lm=cell.lm) if cell.lm is not None else nullcontext():
            cell.program = cell.make_program(retriever=retriever)
        if cell.program.needs_retriever and retriever is None and not self.dry:
            raise UsageError(f"{column.dataset} has no passages of its own: name an index or a corpus for it")
        cell.metrics = score_metrics(column.metrics, best_of_answers=row.best_of_answers)
        return cell

    def dataset(self, column: Column) -> Dataset | None:
        """The column's data; None if their path is not named."""
        name, path = column.dataset, self.setup.data.get(column.dataset)
        if path is None and name != "sample":
            return None
        key = (name, column.split, column.drawn)
        if key not in self.datasets:
            self.datasets[key] = load_dataset(
                name if path is None else path,
                layout=None if path is None else layout_named(name, Path(path)),
                corpus=self.setup.corpora.get(name),
                seed=self.setup.seed,
                undivided_as=column.split if path is not None and not Path(path).is_dir() else None,
                sampling=column.drawn or None,
            )
        return self.datasets[key]

    def retriever(self, dataset: Dataset, column: Column, engine: str) -> tuple[Any, Path | str | None]:
        """The index of a data set and its folder; the index is built from the corpus if no folder is named.

        A retriever from outside has a name instead of a folder.
        """
        named = self.setup.indexes.get(column.dataset)
        if named is None and not dataset.corpus:
            return None, None
        if named is not None and named not in self.retrievers and (outside := outside_retriever(named)) is not None:
            self.retrievers[named] = outside
        if named in self.retrievers:
            return self.retrievers[named], str(named)
        folder = self.setup.output / "indexes" / dataset.index_name(engine) if named is None else Path(named)
        if folder not in self.retrievers:
            if self.dry and named is None and not folder.exists():
                return None, folder
            self.retrievers[folder] = (
                open_index(folder, engine=self.setup.engine, quality=self.setup.quality, allow_hub=self.setup.allow_hub)
                if named is not None
                else open_or_build(folder, dataset.corpus, engine, quality=self.setup.quality, progress=self.progress)
            )
        return self.retrievers[folder], folder


def _imports(row: Row, column: Column) -> list[str]:
    """The program and the metrics of a cell that are from outside, as `module:Name`."""
    if row.why_not_on(column.dataset):
        return []
    return [name for name in (row.program, *column.metrics) if is_reference(name)]


def _program_factory(cell: Cell, setup: ExperimentSetup) -> tuple[Callable[..., Program], bool]:
    """A function that makes a cell's program from a retriever, and whether the paper's δ was left out."""
    row, column = cell.row, cell.column
    models = {"reranker": setup.reranker, "entailment": setup.entailment}
    settings = {**row.settings, **row.by_dataset.get(column.dataset, {})}
    if row.artifact:
        cls = artifact_class(row.artifact, row.program or None)
        models = {**_parts(cls, models), "allow_hub": setup.allow_hub}
        return functools.partial(_load_artifact, row.artifact, settings, cls, **models), False
    if row.program in PROBES:
        probe = PROBES[row.program]
        if row.preset:
            raise UnknownName.among(f"preset of {row.program}", row.preset, probe.presets)
        return functools.partial(probe, cell.examples, seed=setup.seed, **_parts(probe, models), **settings), False
    try:
        cls = get_program(row.program)
    except UnknownName:
        if is_reference(row.program):
            raise
        raise UnknownName.among("program", row.program, [*PROGRAMS, *PROBES]) from None
    if row.input or row.output:
        if not isinstance(cls, ModuleFactory):
            raise UsageError(f"input and output apply only to a dspy.Module, and {row.program} is not one")
        cls = cast("type[Program]", cls.with_fields(row.input, row.output))
    preset = cls.paper_preset(column.task) if row.preset == PAPER else row.preset
    if row.preset and not preset:
        raise UnknownName.among(f"preset of {row.program}", f"{PAPER} for the task {column.task}", cls.presets)
    values: dict[str, Any] = {"style": TASKS[column.task]} if "style" in cls.hyperparameters() else {}
    values |= {**(cls.preset(preset) if preset else {}), **settings}
    values, left_out = fit_to_reranker(values, setup.reranker)
    return functools.partial(cls, **_parts(cls, models), **values), bool(left_out)


def _load_artifact(
    folder: str, settings: Mapping[str, Any], cls: type[Program], *, retriever: Any = None, **models: Any
) -> Program:
    return load(folder, retriever=retriever, expect=cls, **models).configure(**settings)


def _parts(cls: type[Program], models: Mapping[str, Any]) -> dict[str, Any]:
    """The given models that a program of this class has a part for."""
    return {name: model for name, model in models.items() if model is not None and name in cls.part_names}


def paper_differences(cell: Cell, table: ExperimentTable, setup: ExperimentSetup) -> list[str]:
    """Name the differences from the paper's setting; empty if none is known, or if the paper has no figure."""
    paper, row, column, program = table.paper, cell.row, cell.column, cell.program
    printed = table.printed(cell.row_number, cell.column_number)
    if paper is None or program is None or all(figure is None for figure in printed.values()):
        return []
    differences = []
    ours, theirs = lm_name(cell.lm), row.lm or paper.lm
    if ours.rpartition("/")[2].lower() != theirs.lower():
        differences.append(f"language model: {ours or 'none yet'}, not {theirs}")
    if program.needs_retriever:
        engine, corpus = row.engine or column.paper_engine or paper.engine, column.paper_corpus or paper.corpus
        own = column.dataset in setup.corpora or column.dataset in setup.indexes
        searched = "a corpus of one's own" if own else "the passages that come with the questions"
        if row.candidates and (cell.dataset is None or any(each.get("candidates") for each in cell.examples)):
            searched = CANDIDATES
        differences += [f"retriever: {cell.engine}, not {engine}"] if cell.engine != engine else []
        if "corpus" not in setup.as_paper and searched != corpus:
            differences.append(f"corpus: {searched}, not {corpus}")
    if "questions" not in setup.as_paper:
        asked = cell.questions if cell.dataset is not None else "none yet"
        same = column.questions in (None, asked)
        differences.append(f"questions: {asked}, {'perhaps others' if same else f'not {column.questions}'}")
    models = [model for name in ("reranker", "entailment") if (model := program.parts().get(name)) is not None]
    if paper.models and models and "models" not in setup.as_paper:
        differences.append(f"reranker and entailment: {', '.join(map(model_name, models))}, not {paper.models}")
    if cell.delta_left_out:
        differences.append("relevance threshold: the reranker's own, since the paper's is on another scale")
    shown = paper.demonstrations if row.demonstrations is None else row.demonstrations
    if shown and not row.artifact:
        differences.append(f"demonstrations: none, not {shown}")
    if printed.get("knowledge_tokens") is not None:
        differences.append("knowledge tokens: words, where the paper counts its language model's tokens")
    return [*differences, *filter(None, (column.differs, row.differs))]
