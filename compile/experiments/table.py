"""The table of an experiment: which programs, on which data, by which metrics, and what a paper reports for them.

A table is a TOML file. A row's `paper` lists the paper's figures in the order of all columns' metrics, with `nan` for
figures that the paper does not have::

    title = "Two methods on my questions"
    baseline = "plain retrieval"          # the row that the others are tested against

    [[columns]]
    dataset = "own"                       # its path is named when the table is run
    metrics = ["f1", "exact_match", "lm_calls"]
    task = "multi_hop"                    # selects the preset of a program that has one, and how answers are worded

    [[rows]]
    label = "plain retrieval"
    program = "rag"

    [[rows]]
    label = "MIGRES, three iterations"
    program = "migres"
    settings = { iterations = 3 }
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from knowgap.errors import DataError, UnknownName
from knowgap.plugins import is_reference

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
    "news": "news",
}
"""Families of tasks, each with the style in which its answers are worded.

`multi_hop_deep` are data sets of up to four hops (2WikiMultihopQA, MuSiQue), for which RQ-RAG has a preset of its own;
other programs take that of `multi_hop`.
"""


class PaperSetting(BaseModel, extra="forbid", frozen=True):
    """Where a paper's figures come from, and what they were measured on.

    Attributes:
        citation: the paper.
        table: the table or figure in it.
        lm: the language model, by its name at the provider.
        engine: an index engine of knowgap, or the name of another retriever.
        corpus: what was searched, in words.
        models: reranker and entailment model; empty if the method has none.
        demonstrations: number of examples shown to the language model; 0 is zero-shot.
        scale: factor that makes the printed scores percentages: 1 for percentages, 100 for fractions.
    """

    citation: str
    table: str
    lm: str
    engine: str
    corpus: str
    models: str = ""
    demonstrations: int = 0
    scale: float = 1.0


class Column(BaseModel, extra="forbid", frozen=True):
    """A data set with the metrics by which it is scored, the main one first.

    Attributes:
        dataset: the name by which its path is given; `sample` needs none.
        metrics: names of `compile.evaluation.metrics`, `module:Name` of those from outside, and costs: `lm_calls`,
            `iterations`, `passages`, `tokens`, ….
        label: as the table shows it.
        task: one of `TASKS`; it decides on the wording of answers, and which preset `paper` is.
        split: the split that is asked.
        questions: how many questions are asked; None for all. In a paper's table, it is how many the paper asked, and
            an estimate uses it if the data are not named.
        sampling: how questions are drawn if there are more: `first-N` or `random-N`; empty for random ones.
        paper_engine: the paper's retriever on this data set, if it is not the table's.
        paper_corpus: what the paper searched on this data set, if it is not the table's.
        differs: how our setting differs from the paper's on this data set, besides what it shows.
    """

    dataset: str
    metrics: tuple[str, ...] = Field(min_length=1)
    label: str = ""
    task: str = "multi_hop"
    split: str = "test"
    questions: int | None = Field(default=None, ge=1)
    sampling: str = ""
    paper_engine: str = ""
    paper_corpus: str = ""
    differs: str = ""

    @property
    def title(self) -> str:
        """The label, or the data set's name."""
        return self.label or self.dataset

    @property
    def drawn(self) -> str:
        """How the questions are drawn; empty for all of them."""
        return self.sampling or (f"random-{self.questions}" if self.questions else "")


class Row(BaseModel, extra="forbid", frozen=True):
    """A program with its settings, and what the paper reports for it.

    Attributes:
        label: as the table shows it; unique.
        program: name in the registry, of a probe, or `module:Name` of one from outside; empty if `artifact` or
            `left_out` is given.
        artifact: folder of a compiled program, instead of `program`; one from outside is named as `program`, too.
        input: for a `dspy.Module`, the input that gets the question, if it cannot be guessed.
        output: for a `dspy.Module`, the output that is the answer, if it cannot be guessed.
        preset: preset of the program; `paper` for that of the column's task; empty for the class's defaults.
        settings: hyperparameters.
        by_dataset: more hyperparameters, by data set.
        datasets: the only columns on which the row is run; empty for all.
        group: heading of the row.
        engine: index engine of this row, if it is not the table's.
        lm: the paper's language model of this row, if it is not the table's.
        candidates: search the question's own paragraphs only, if the data have them.
        top_p: ask once with each of these values of `top_p`, at temperature 1.
        best_of_answers: score the best of all the answers that the program weighed or that were sampled: the upper
            bound of a choice.
        left_out: why the row is not run.
        differs: how our row differs from the paper's, besides what its setting shows.
        demonstrations: number of examples that the paper shows for this row, if it is not the table's.
        paper: the paper's figures as printed, in the order of the columns' metrics.
    """

    label: str
    program: str = ""
    artifact: str = ""
    input: str = ""
    output: str = ""
    preset: str = ""
    settings: dict[str, Any] = {}
    by_dataset: dict[str, dict[str, Any]] = {}
    datasets: tuple[str, ...] = ()
    group: str = ""
    engine: str = ""
    lm: str = ""
    candidates: bool = False
    top_p: tuple[float, ...] = ()
    best_of_answers: bool = False
    left_out: str = ""
    differs: str = ""
    demonstrations: int | None = None
    paper: tuple[float | None, ...] = ()

    def why_not_on(self, dataset: str) -> str:
        """Why the row is not run on a data set; empty if it is."""
        elsewhere = self.datasets and dataset not in self.datasets
        return self.left_out or ("not part of the table" if elsewhere else "")

    @field_validator("paper", mode="after")
    @classmethod
    def _none_for_nan(cls, figures: tuple[float | None, ...]) -> tuple[float | None, ...]:
        return tuple(None if figure is None or math.isnan(figure) else figure for figure in figures)

    @model_validator(mode="after")
    def _check(self) -> Row:
        named = bool(self.program) and not (self.artifact and is_reference(self.program))
        if sum(map(bool, (named, self.artifact, self.left_out))) != 1:
            raise ValueError(f"the row {self.label!r} needs exactly one of program, artifact and left_out")
        if self.artifact and self.preset:
            raise ValueError(
                f"the row {self.label!r} has an artifact, which has its own settings: leave out the preset"
            )
        return self


class ExperimentTable(BaseModel, extra="forbid", frozen=True):
    """Rows of programs by columns of data sets.

    Attributes:
        name: the file's stem.
        paper: where the figures come from; None for a table without a paper.
        baseline: label of the row that the others are tested against; if empty, the first row that is run.
        engine: index engine.
        lm: language model if none is named; the paper's is in `paper`.
        notes: what a reader has to know.
    """

    name: str = ""
    title: str
    paper: PaperSetting | None = None
    baseline: str = ""
    engine: str = "bm25"
    lm: str = ""
    notes: tuple[str, ...] = ()
    columns: tuple[Column, ...] = Field(min_length=1)
    rows: tuple[Row, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> ExperimentTable:
        labels = [row.label for row in self.rows]
        if len(set(labels)) != len(labels):
            raise ValueError(f"two rows have the label {next(x for x in labels if labels.count(x) > 1)!r}")
        if self.baseline and self.baseline not in labels:
            raise ValueError(str(UnknownName.among("baseline", self.baseline, labels)))
        width = sum(len(column.metrics) for column in self.columns)
        for row in self.rows:
            if len(row.paper) not in (0, width):
                raise ValueError(f"the row {row.label!r} has {len(row.paper)} of the paper's figures, not {width}")
            if row.paper and self.paper is None:
                raise ValueError(f"the row {row.label!r} has a paper's figures, and the table names no paper")
        for column in self.columns:
            if column.task not in TASKS:
                raise ValueError(str(UnknownName.among("task", column.task, TASKS)))
        return self

    def only(self, datasets: Collection[str]) -> ExperimentTable:
        """The table with only the columns of these data sets, or with all columns if none are named.

        Raises:
            UnknownName: the table has no column of a data set.
        """
        if not datasets:
            return self
        known = [column.dataset for column in self.columns]
        for name in datasets:
            if name not in known:
                raise UnknownName.among(f"column of {self.name}", name, known)
        kept = [number for number, name in enumerate(known) if name in datasets]
        rows = []
        for place, row in enumerate(self.rows):
            changes: dict[str, Any] = {
                "datasets": tuple(name for name in row.datasets if name in datasets),
                "by_dataset": {k: values for k, values in row.by_dataset.items() if k in datasets},
            }
            if row.datasets and not changes["datasets"]:
                continue
            if row.paper:
                changes["paper"] = tuple(value for number in kept for value in self.printed(place, number).values())
            rows.append(row.model_copy(update=changes))
        columns = tuple(self.columns[number] for number in kept)
        return self.model_copy(update={"columns": columns, "rows": tuple(rows)})

    def printed(self, row: int, column: int) -> dict[str, float | None]:
        """The paper's figures of a cell as it prints them, by metric; None for a metric without a figure."""
        metrics = self.columns[column].metrics
        start = sum(len(each.metrics) for each in self.columns[:column])
        figures = self.rows[row].paper[start : start + len(metrics)] or [None] * len(metrics)
        return dict(zip(metrics, figures, strict=True))


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
