"""The table of an experiment: which programs, on which data, by which metrics, and what a paper reports for them.

A table is a TOML file: `tables/own_questions.toml` explains each line. A row's `paper` lists the paper's figures, the
scores in percent, in the order of all columns' metrics, with `nan` for figures that the paper does not have.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError, model_validator

from knowgap.errors import DataError, UnknownName

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TASKS = {
    "multi_hop": "short",
    "multi_hop_deep": "short",
    "open_domain": "short",
    "commonsense": "yes_no",
    "multiple_choice": "choice",
    "long_form": "long",
}
"""Families of tasks, each with the style in which its answers are worded.

`multi_hop_deep` are data sets of up to four hops (2WikiMultihopQA, MuSiQue), for which RQ-RAG has a preset of its own;
other programs take that of `multi_hop`.
"""


class Column(BaseModel, extra="forbid", frozen=True):
    """A data set with the metrics by which it is scored, the main one first.

    Attributes:
        dataset: the name by which its path is given; `sample` needs none.
        metrics: names of metrics, `module:Name` of those from outside, and costs: `lm_calls`, `passages`, `tokens`, ….
        label: as the table shows it.
        task: one of `TASKS`; it decides on the wording of answers, and which preset `paper` is.
        split: the split that is asked.
        questions: how many questions are drawn from the split at random; None for all.
        differs: how our setting differs from the paper's on this data set, besides what the results show.
    """

    dataset: str
    metrics: tuple[str, ...] = Field(min_length=1)
    label: str = ""
    task: str = "multi_hop"
    split: str = "test"
    questions: int | None = Field(default=None, ge=1)
    differs: str = ""

    @property
    def title(self) -> str:
        """The label, or the data set's name."""
        return self.label or self.dataset


class Row(BaseModel, extra="forbid", frozen=True):
    """A program with its settings, and what the paper reports for it.

    Attributes:
        label: as the table shows it; unique.
        program: name in the registry, or `module:Name` of one from outside; empty if the row is left out.
        preset: preset of the program; `paper` for that of the column's task; empty for the class's defaults.
        settings: hyperparameters.
        left_out: why the row is not run, instead of a program.
        differs: how our row differs from the paper's.
        paper: the paper's figures, scores in percent, in the order of the columns' metrics.
    """

    label: str
    program: str = ""
    preset: str = ""
    settings: dict[str, Any] = {}
    left_out: str = ""
    differs: str = ""
    paper: tuple[float, ...] = ()


class ExperimentTable(BaseModel, extra="forbid", frozen=True):
    """Rows of programs by columns of data sets.

    Attributes:
        name: the file's stem.
        paper: the paper and the table or figure in it; empty for a table without one.
        setting: what the paper's figures were measured with: language model, retriever, corpus, other models.
        baseline: label of the row that the others are tested against; if empty, the first row that is run.
        engine: index engine.
        notes: what a reader has to know.
    """

    name: str = ""
    title: str
    paper: str = ""
    setting: str = ""
    baseline: str = ""
    engine: str = "bm25"
    notes: tuple[str, ...] = ()
    columns: tuple[Column, ...] = Field(min_length=1)
    rows: tuple[Row, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> ExperimentTable:
        labels, width = [row.label for row in self.rows], sum(len(column.metrics) for column in self.columns)
        for names in (labels, [column.title for column in self.columns]):
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise ValueError(f"the label {twice!r} is used twice")
        if self.baseline and self.baseline not in labels:
            raise ValueError(str(UnknownName.among("baseline", self.baseline, labels)))
        for row in self.rows:
            if len(row.paper) not in (0, width):
                raise ValueError(f"the row {row.label!r} has {len(row.paper)} of the paper's figures, not {width}")
        for column in self.columns:
            if column.task not in TASKS:
                raise ValueError(str(UnknownName.among("task", column.task, TASKS)))
        return self

    def printed(self, row: Row, column: Column, metric: str) -> float | None:
        """The paper's figure for a metric of a cell, a score in percent; None without one."""
        place = sum(len(each.metrics) for each in self.columns[: self.columns.index(column)])
        figure = row.paper[place + column.metrics.index(metric)] if row.paper else math.nan
        return None if math.isnan(figure) else figure


def shipped_tables() -> dict[str, Path]:
    """The tables that come with knowgap, by name: those of the papers, and some of our own."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "tables").glob("*.toml"))}


def read_table(source: str | Path) -> ExperimentTable:
    """Read a table: the name of one that comes with knowgap, or a file.

    Raises:
        UnknownName: there is no such table and no such file.
        DataError: the file is not a table; names what is wrong.
    """
    path = shipped_tables().get(str(source), Path(source))
    if not path.is_file():
        raise UnknownName.among("table", str(source), shipped_tables())
    try:
        return ExperimentTable.model_validate({"name": path.stem, **tomllib.loads(path.read_text(encoding="utf-8"))})
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(map(str, problem["loc"])) or None
        raise DataError(problem["msg"].removeprefix("Value error, "), path=path, field=field) from None
    except ValueError as error:  # from the decoder of UTF-8 or of TOML
        raise DataError(f"is not TOML: {error}", path=path) from None
