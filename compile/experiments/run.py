"""Run a table: ask every program the questions of every data set, and continue a run that was stopped.

A run keeps everything in its output folder: a file of answers for each program and data set (`answers/`), indexes
(`indexes/`). The same call reads them again and asks only what is missing, whether the run was killed or finished.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from knowgap.compiling.data import Dataset, load_dataset, split
from knowgap.compiling.evaluation.evaluator import evaluate, file_name
from knowgap.compiling.evaluation.metrics import get_metric
from knowgap.compiling.evaluation.results import COSTS
from knowgap.compiling.evaluation.shared_cache import share_results
from knowgap.compiling.experiments.result import ExperimentResult
from knowgap.compiling.experiments.table import TASKS, Column, ExperimentTable, Row, read_table
from knowgap.compiling.run import Run
from knowgap.errors import UnknownName, UsageError
from knowgap.programs import get_program
from knowgap.programs.base import Program
from knowgap.retrieval.index.engines import as_retriever, open_or_build


@dataclass(frozen=True)
class Experiment:
    """A table with the data, the indexes and the models that it is run with.

    Args:
        table: a table, the name of one that comes with knowgap, or a TOML file.
        output: folder of answers, indexes and results.
        data: file or folder by data set name; columns whose data are not named are left out.
        indexes: index folder or another retriever by data set name; the others are built in `output` from the passages
            that come with the questions.
        engine: index engine, instead of the table's.
        rows: labels of the rows to run; None for all.
        limit: how many questions of each data set are asked at most.
        models: reranker and entailment model, for the programs that have them.

    Raises:
        UnknownName: a row, column, data set or metric that does not exist.
    """

    table: ExperimentTable | str | Path
    output: str | Path
    data: Mapping[str, str | Path] = field(default_factory=dict)
    indexes: Mapping[str, Any] = field(default_factory=dict)
    engine: str | None = None
    rows: Collection[str] | None = None
    limit: int | None = None
    models: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        table = self.read
        labels, datasets = [row.label for row in table.rows], [column.dataset for column in table.columns]
        for kind, names, known in (
            ("data set", [*self.data, *self.indexes], datasets),
            ("row", self.rows or (), labels),
        ):
            for name in names:
                if name not in known:
                    raise UnknownName.among(f"{kind} of {table.name}", name, known)
        for metric in dict.fromkeys(name for column in table.columns for name in column.metrics):
            if metric not in COSTS:
                get_metric(metric)

    @functools.cached_property
    def read(self) -> ExperimentTable:
        """The table."""
        return self.table if isinstance(self.table, ExperimentTable) else read_table(self.table)

    def run(self, run: Run = Run()) -> ExperimentResult:
        """Run the table, write `experiment.md` and `experiment.csv` into `output`, and return the results.

        Raises:
            UsageError: no data for any column, or a row that cannot be made.
            DataError: data that cannot be read or scored.
            LanguageModelUnreachable: the language model can no longer be reached; the same call continues the run.
        """
        table, found = self.read, ExperimentResult(self.read)
        rows = [row for row in table.rows if self.rows is None or row.label in self.rows]
        rows.sort(key=lambda row: row.label != table.baseline)
        columns = [column for column in table.columns if column.dataset in {"sample", *self.data}]
        if not columns:
            missing = " ".join(dict.fromkeys(f"{column.dataset}=PATH" for column in table.columns))
            raise UsageError(f"no data for any column of {table.name}: name the files ({missing})")
        for column in columns:
            data = self._data(column, run.seed)
            retriever, programs = self._retriever(column, data, run), dict[str, Program]()
            for row in rows:
                made = row.left_out or self._program(row, column, retriever)
                if isinstance(made, str):
                    found.left_out[row.label, column.title] = made
                else:
                    programs[row.label] = made
            folder = Path(self.output) / "answers" / file_name(column.title)
            metrics = [name for name in column.metrics if name not in COSTS]
            asked = {"run": run.named(column.title), "split": column.split, "limit": self.limit, "output": folder}
            if programs:
                found.evaluations[column.title] = evaluate(share_results(programs), data, metrics, **asked)
        found.save(self.output)
        return found

    def _data(self, column: Column, seed: int) -> Dataset:
        path = self.data.get(column.dataset, "sample")
        data = load_dataset(path, seed=seed, split_as=column.split)
        if column.questions is None:
            return data
        drawn = split(data.questions(column.split), {"drawn": column.questions}, seed)["drawn"]
        return replace(data, splits={**data.splits, column.split: drawn})

    def _retriever(self, column: Column, data: Dataset, run: Run) -> Any:
        """The index that is named for a data set, or one of its passages, which is built at first."""
        if column.dataset in self.indexes:
            return as_retriever(self.indexes[column.dataset])
        engine = self.engine or self.read.engine
        folder = Path(self.output) / "indexes" / data.index_name(engine)
        return open_or_build(folder, data.corpus, engine, progress=run.progress) if data.corpus else None

    def _program(self, row: Row, column: Column, retriever: Any) -> Any:
        """The program of a cell, or why there is none."""
        cls = get_program(row.program)
        preset = row.preset
        if preset == "paper":
            tasks = (column.task, column.task.removesuffix("_deep"))
            preset = next((name for name in tasks if name in cls.presets), "")
            if not preset:
                return "its paper has no setting for this task"
        has_style = "style" in cls.hyperparameters() and "style" not in cls.presets.get(preset, {})
        values: dict[str, Any] = {"style": TASKS[column.task]} if has_style else {}
        values |= row.settings
        models = {name: model for name, model in self.models.items() if name in cls.part_names}
        program = (
            cls.from_preset(preset, retriever, **models, **values) if preset else cls(retriever, **models, **values)
        )
        if program.needs_retriever and retriever is None:
            raise UsageError(f"{column.dataset} has no passages of its own: name an index for it")
        return program
