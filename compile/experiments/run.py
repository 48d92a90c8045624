"""Run a table: ask every program the questions of every data set, and continue a run that was stopped.

A run keeps everything in its output folder: a file of answers for each program and data set (`answers/`), indexes
(`indexes/`), and the results as Markdown and CSV. The same call reads the answers again and asks only what is missing,
whether the run was killed or finished.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from knowgap.compiling.data import load_dataset, split
from knowgap.compiling.evaluation.evaluator import evaluate, file_name
from knowgap.compiling.evaluation.metrics import named_metrics
from knowgap.compiling.evaluation.results import COSTS, Evaluations
from knowgap.compiling.evaluation.shared_cache import share_results
from knowgap.compiling.evaluation.statistics import SIGNIFICANT
from knowgap.compiling.experiments.table import TASKS, Column, ExperimentTable, Row, read_table
from knowgap.compiling.run import Run
from knowgap.errors import UnknownName, UsageError
from knowgap.programs import get_program
from knowgap.programs.base import Program
from knowgap.retrieval.indexes import as_retriever, open_or_build
from knowgap.storage.files import write_file


def run_experiment(
    table: ExperimentTable | str | Path,
    output: str | Path,
    *,
    data: Mapping[str, str | Path] | None = None,
    indexes: Mapping[str, Any] | None = None,
    engine: str | None = None,
    rows: Collection[str] | None = None,
    limit: int | None = None,
    models: Mapping[str, Any] | None = None,
    run: Run = Run(),
) -> ExperimentResult:
    """Run a table, write `experiment.md` and `experiment.csv` into `output`, and return the results.

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
        run: the language model, how many questions are asked at a time, the seed, and a callback.

    Raises:
        UnknownName: a row, column, data set or metric that does not exist.
        UsageError: no data for any column, or a row that cannot be made.
        DataError: data that cannot be read or scored.
        LanguageModelUnreachable: the language model can no longer be reached; the same call continues the run.
    """
    table, data, indexes = table if isinstance(table, ExperimentTable) else read_table(table), data or {}, indexes or {}
    for kind, names, known in (
        ("data set", [*data, *indexes], [column.dataset for column in table.columns]),
        ("row", rows or (), [row.label for row in table.rows]),
    ):
        for name in names:
            if name not in known:
                raise UnknownName.among(f"{kind} of {table.name}", name, known)
    columns = [column for column in table.columns if column.dataset in {"sample", *data}]
    if not columns:
        missing = " ".join(dict.fromkeys(f"{column.dataset}=PATH" for column in table.columns))
        raise UsageError(f"no data for any column of {table.name}: name the files ({missing})")
    found, asking = ExperimentResult(table), dict[str, partial[Evaluations]]()
    for column in columns:  # all are looked at before anything is asked
        asked = load_dataset(data.get(column.dataset, "sample"), seed=run.seed, split_as=column.split)
        if column.questions is not None:
            drawn = split(asked.questions(column.split), {"drawn": column.questions}, run.seed)["drawn"]
            asked = replace(asked, splits={**asked.splits, column.split: drawn})
        retriever, kind = as_retriever(indexes.get(column.dataset)), engine or table.engine
        if retriever is None and asked.corpus:
            folder = Path(output) / "indexes" / asked.index_name(kind)
            retriever = open_or_build(folder, asked.corpus, kind, progress=run.progress)
        made = {
            row.label: row.left_out or make_program(row, column, retriever, models or {})
            for row in sorted(table.rows, key=lambda row: row.label != table.baseline)
            if rows is None or row.label in rows
        }
        found.left_out.update({(label, column.title): why for label, why in made.items() if isinstance(why, str)})
        programs = {label: program for label, program in made.items() if isinstance(program, Program)}
        answers = Path(output) / "answers" / file_name(column.title)
        metrics = [name for name in column.metrics if name not in COSTS]
        options = {"run": run.part(column.title), "split": column.split, "limit": limit, "output": answers}
        if programs and asked.questions(column.split, limit) and named_metrics(metrics):
            asking[column.title] = partial(evaluate, share_results(programs), asked, metrics, **options)
    found.evaluations.update((title, ask()) for title, ask in asking.items())
    found.save(output)
    return found


def make_program(row: Row, column: Column, retriever: Any, models: Mapping[str, Any]) -> Program | str:
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
    values |= {**row.settings, **{name: model for name, model in models.items() if name in cls.part_names}}
    program = cls.from_preset(preset, retriever, **values) if preset else cls(retriever, **values)
    if program.needs_retriever and retriever is None:
        raise UsageError(f"{column.dataset} has no passages of its own: name an index for it")
    return program


@dataclass(frozen=True)
class ExperimentResult:
    """A table with its results: our figures with intervals beside the paper's.

    Attributes:
        table: what was compared.
        evaluations: the evaluations of the rows that were run, by the column's title; the baseline comes first.
        left_out: why a cell was not run, by the row's label and the column's title.
    """

    table: ExperimentTable
    evaluations: dict[str, Evaluations] = field(default_factory=dict)
    left_out: dict[tuple[str, str], str] = field(default_factory=dict)

    def lines(self, column: Column) -> list[dict[str, Any]]:
        """A line for each row and metric of a column; scores are from 0 to 1, the paper's in percent.

        `p` is that of the paired permutation test against the baseline, corrected for the number of rows (Holm).
        """
        found = self.evaluations.get(column.title, Evaluations())
        tested = [metric for metric in column.metrics if metric not in COSTS and self.table.baseline in ("", *found)]
        tests = {metric: found.comparisons(metric) for metric in tested}
        lines: list[dict[str, Any]] = []
        for row in self.table.rows:
            reason, evaluation = self.left_out.get((row.label, column.title)), found.get(row.label)
            for metric in column.metrics if reason is not None or evaluation is not None else ():
                figure = evaluation.interval(metric) if evaluation is not None and evaluation.defines(metric) else None
                test = tests.get(metric, {}).get(row.label)
                line = {
                    **{"row": row.label, "column": column.title, "metric": metric},
                    **{name: getattr(figure, name, None) for name in ("mean", "low", "high")},
                    "paper": self.table.printed(row, column, metric),
                    "p": None if test is None else test.p_corrected,
                    "failed": None if evaluation is None else len(evaluation.failures),
                    "note": reason or row.differs,
                }
                lines.append(line)
        return lines

    def rows(self, column: Column) -> list[list[str]]:
        """The rows of a column's table: label, a cell for each metric, how many questions failed, and a note."""
        lines, width = self.lines(column), len(column.metrics)
        own = [lines[start : start + width] for start in range(0, len(lines), width)]
        return [[of[0]["row"], *map(_cell, of), str(of[0]["failed"] or ""), of[0]["note"]] for of in own]

    def setting(self, column: Column) -> str:
        """What a column was measured with, and what the paper measured with, in one line."""
        found = [*self.evaluations[column.title].values()]
        origin = found[0].provenance
        searched = f"index {origin.retriever['name']}, " if "name" in origin.retriever else ""
        here = f"here: {origin.lm}, {searched}{len(found[0].records)} questions of {origin.split}"
        paper = f"the paper: {self.table.setting}" if self.table.setting else ""
        return "; ".join(filter(None, (here, paper, column.differs)))

    def markdown(self) -> str:
        """The results as Markdown: a table for each column, with the paper's figure beside each of ours."""
        parts = [f"# {self.table.title}", self.table.paper, *self.table.notes]
        for column in (each for each in self.table.columns if each.title in self.evaluations):
            width = len(column.metrics) + 3
            cells = [["", *column.metrics, "failed", "note"], ["---"] * width, *self.rows(column)]
            lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in cells]
            parts += [f"## {column.title}", "\n".join(f"| {line} |" for line in lines)]
            parts.append(f"{self.setting(column)}. * p < {SIGNIFICANT} against the baseline (paired, Holm).")
        return "\n\n".join(filter(None, parts)) + "\n"

    def save(self, folder: str | Path) -> None:
        """Write `experiment.md`, and `experiment.csv` with the lines of all columns, each atomically."""
        write_file(Path(folder) / "experiment.md", self.markdown())
        lines, text = [line for column in self.table.columns for line in self.lines(column)], io.StringIO()
        writer = csv.DictWriter(text, list(lines[0]) if lines else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
        write_file(Path(folder) / "experiment.csv", text.getvalue())


def _cell(line: dict[str, Any]) -> str:
    """Our figure with its interval, a star if it is significantly different, and the paper's; scores in percent."""
    paper = "" if line["paper"] is None else f" (paper {line['paper']:g})"
    if line["mean"] is None:
        return f"–{paper}"
    scale = 1 if line["metric"] in COSTS else 100
    mean, low, high = (f"{scale * line[name]:.1f}" for name in ("mean", "low", "high"))
    star = "*" if line["p"] is not None and line["p"] < SIGNIFICANT else ""
    return f"{mean}{star} [{low}–{high}]{paper}"
