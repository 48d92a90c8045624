"""What a table's run found: figures with intervals, comparisons, costs and differences from the paper's setting."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from knowgap.compile.evaluation.provenance import Provenance
from knowgap.compile.evaluation.statistics import Comparison, Interval
from knowgap.compile.experiments.measures import is_cost
from knowgap.compile.experiments.table import ExperimentTable
from knowgap.compile.study.budget import Spent
from knowgap.errors import DataError
from knowgap.retrieval.index.files import write_file

__all__ = ["CellResult", "ExperimentResult", "Figure", "holm"]

SIGNIFICANT = 0.05
_CSV = (
    "row", "dataset", "metric", "mean", "low", "high", "questions", "failed", "difference", "p", "p_corrected",
    "paper", "same_setting", "differs", "lm_calls", "tokens", "lm", "retriever", "not_run",
)  # fmt: skip


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Figure(_Part):
    """A metric of a cell.

    Attributes:
        metric: its name.
        ours: mean and 95% interval, scores from 0 to 1; None where it is defined for no question.
        paper: the paper's figure, scores in percent.
        comparison: with the baseline, question by question; None for the baseline itself and for costs.
        p_corrected: its p-value, corrected for the number of rows that are compared (Holm).
    """

    metric: str
    ours: Interval | None = None
    paper: float | None = None
    comparison: Comparison | None = None
    p_corrected: float | None = None

    @property
    def significant(self) -> bool:
        """Whether the difference from the baseline is significant at 5%, corrected."""
        return self.p_corrected is not None and self.p_corrected < SIGNIFICANT


class CellResult(_Part):
    """A row on a column.

    Attributes:
        row: number of the row.
        column: number of the column.
        reason: why it was not run; empty where it was.
        questions: how many were asked.
        failed: on how many of these the program failed; they score 0.
        figures: in the order of the column's metrics.
        costs: means per question.
        differs: in what the setting is not the paper's; empty where nothing is known to differ.
        provenance: where the figures come from.
    """

    row: int
    column: int
    reason: str = ""
    questions: int = 0
    failed: int = 0
    figures: list[Figure] = []
    costs: dict[str, float] = {}
    differs: list[str] = []
    provenance: Provenance | None = None


class ExperimentResult(_Part):
    """A table with what was found.

    Attributes:
        table: what was compared.
        baseline: label of the row that the others are tested against.
        cells: row by row.
        spent: what this run asked of the language model, beyond what earlier runs had answered.
        limit: the first so many questions only.
        seed: of samples, splits and intervals.
    """

    table: ExperimentTable
    baseline: str
    cells: list[CellResult]
    spent: Spent = Spent()
    limit: int | None = None
    seed: int = 0

    def cell(self, row: int, column: int) -> CellResult | None:
        """The cell at a place; None where the row was not chosen."""
        return next((cell for cell in self.cells if (cell.row, cell.column) == (row, column)), None)

    @property
    def failed(self) -> int:
        """Questions on which a program failed, in all cells."""
        return sum(cell.failed for cell in self.cells)

    @classmethod
    def load(cls, path: str | Path) -> ExperimentResult:
        """Read a `experiment.json`.

        Raises:
            DataError: the file is absent or something else.
        """
        try:
            return cls.model_validate_json(Path(path).read_bytes())
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", path=path) from None
        except ValidationError as error:
            raise DataError(f"not an experiment saved by knowgap: {error.errors()[0]['msg']}", path=path) from None

    def save(self, folder: str | Path) -> None:
        """Write `experiment.json` and `experiment.csv`; each is complete, or as it was before."""
        write_file(Path(folder) / "experiment.json", self.model_dump_json(indent=1))
        write_file(Path(folder) / "experiment.csv", self.csv())

    def csv(self) -> str:
        """One line for each row, data set and metric."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(_CSV)
        for cell, figure in self._figures():
            origin, ours, pair = cell.provenance, figure.ours, figure.comparison
            writer.writerow(
                [self.table.rows[cell.row].label, self.table.columns[cell.column].dataset, figure.metric]
                + ([ours.mean, ours.low, ours.high] if ours else ["", "", ""])
                + [cell.questions, cell.failed]
                + ([pair.difference, pair.p_value, figure.p_corrected] if pair else ["", "", ""])
                + ["" if figure.paper is None else figure.paper]
                + [
                    "" if figure.paper is None else "no" if cell.differs or cell.reason else "yes",
                    "; ".join(cell.differs),
                ]
                + [cell.costs.get("lm_calls", ""), cell.costs.get("tokens", "")]
                + [origin.lm if origin else "", origin.retriever.get("name", "") if origin else "", cell.reason]
            )
        return out.getvalue()

    def _figures(self) -> Iterator[tuple[CellResult, Figure]]:
        for cell in self.cells:
            yield from ((cell, figure) for figure in self.figures(cell))

    def figures(self, cell: CellResult) -> list[Figure]:
        """A cell's figures; for one that was not run, the paper's alone."""
        if cell.figures:
            return cell.figures
        scale = self.table.paper.scale if self.table.paper else 1.0
        return [
            Figure(metric=name, paper=None if figure is None else figure if is_cost(name) else figure * scale)
            for name, figure in zip(
                self.table.columns[cell.column].metrics, self.table.printed(cell.row, cell.column), strict=True
            )
        ]


def holm(figures: Sequence[Figure]) -> None:
    """Correct the p-values of several comparisons with one baseline (Holm, 1979), in place."""
    tested = sorted((f for f in figures if f.comparison is not None), key=lambda f: _p(f))
    highest = 0.0
    for rank, figure in enumerate(tested):
        highest = max(highest, min(1.0, (len(tested) - rank) * _p(figure)))
        figure.p_corrected = highest


def _p(figure: Figure) -> Any:
    return figure.comparison.p_value if figure.comparison else 1.0
