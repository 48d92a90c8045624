"""The results of an experiment: our figures with intervals beside the paper's, as Markdown and CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from knowgap.compiling.evaluation.results import COSTS, Evaluations
from knowgap.compiling.evaluation.statistics import SIGNIFICANT, few_questions
from knowgap.compiling.experiments.table import Column, ExperimentTable
from knowgap.storage.files import write_file


@dataclass(frozen=True)
class ExperimentResult:
    """A table with its results.

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
        tests = {metric: found.comparisons(metric) for metric in column.metrics if metric not in COSTS}
        lines: list[dict[str, Any]] = []
        for row in self.table.rows:
            reason, evaluation = self.left_out.get((row.label, column.title)), found.get(row.label)
            for metric in column.metrics if reason is not None or evaluation is not None else ():
                line: dict[str, Any] = {"row": row.label, "column": column.title, "metric": metric}
                figure, test = None, tests.get(metric, {}).get(row.label)
                if evaluation is not None and evaluation.defines(metric):
                    figure = evaluation.interval(metric)
                line |= {name: getattr(figure, name, None) for name in ("mean", "low", "high")}
                line |= {"paper": self.table.printed(row, column, metric), "p": test and test.p_corrected}
                line |= {"failed": len(evaluation.failures) if evaluation is not None else None}
                lines.append(line | {"note": reason or row.differs})
        return lines

    def setting(self, column: Column) -> str:
        """What a column was measured with, and what the paper measured with, in one line."""
        found = [*self.evaluations.get(column.title, Evaluations()).values()]
        if not found:
            return "not run"
        origin = found[0].provenance
        searched = ", ".join(f"{name} {origin.retriever[name]}" for name in ("name", "passages") if origin.retriever)
        here = f"here: {origin.lm}, {searched}, {len(found[0].records)} questions of {origin.split}"
        paper = f"the paper: {self.table.setting}" if self.table.setting else ""
        scores = [each.interval(name) for each in found for name in each.metrics if each.defines(name)]
        return "; ".join(filter(None, (here, paper, column.differs, few_questions(scores))))

    def markdown(self) -> str:
        """The results as Markdown: a table for each column, with the paper's figure beside each of ours."""
        parts = [f"# {self.table.title}", self.table.paper, *self.table.notes]
        for column in self.table.columns:
            table, lines = [["", *column.metrics, "failed", "note"], ["---"] * (len(column.metrics) + 3)], []
            lines = self.lines(column)
            for start in range(0, len(lines), len(column.metrics)):
                own = lines[start : start + len(column.metrics)]
                table.append([own[0]["row"], *map(cell_text, own), str(own[0]["failed"] or 0), own[0]["note"]])
            parts += [f"## {column.title}", "\n".join(f"| {' | '.join(cells)} |" for cells in table)]
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


def cell_text(line: dict[str, Any]) -> str:
    """Our figure with its interval, a star if it is significantly different, and the paper's; scores in percent."""
    paper = "" if line["paper"] is None else f" (paper {line['paper']:g})"
    if line["mean"] is None:
        return f"–{paper}"
    scale = 1 if line["metric"] in COSTS else 100
    mean, low, high = (f"{scale * line[name]:.1f}" for name in ("mean", "low", "high"))
    star = "*" if line["p"] is not None and line["p"] < SIGNIFICANT else ""
    return f"{mean}{star} [{low}–{high}]{paper}"
