"""The results of an experiment: figures with intervals, comparisons, costs, differences from the paper's setting."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from knowgap.compiling.evaluation.costs import PER_RIGHT_ANSWER
from knowgap.compiling.evaluation.metrics import EVIDENCE
from knowgap.compiling.evaluation.provenance import Provenance
from knowgap.compiling.evaluation.statistics import Comparison, Interval
from knowgap.compiling.experiments.table import ExperimentTable
from knowgap.lms.metering import Usage
from knowgap.storage.files import write_file

SIGNIFICANT = 0.05


class Figure(BaseModel, extra="forbid"):
    """A metric of a cell.

    Attributes:
        metric: its name.
        ours: mean and 95% interval, scores from 0 to 1; None if the cell was not run or no question defines it.
        paper: the paper's figure, scores in percent.
        comparison: the comparison with the baseline, question by question; None for the baseline itself and for costs.
        p_corrected: the comparison's p-value, corrected for the number of rows that are compared (Holm).
        sd: standard deviation of the means of the seeds; None if there is one seed only.
    """

    metric: str
    ours: Interval | None = None
    paper: float | None = None
    comparison: Comparison | None = None
    p_corrected: float | None = None
    sd: float | None = None

    @property
    def significant(self) -> bool:
        """Whether the difference from the baseline is significant at 5% after correction."""
        return self.p_corrected is not None and self.p_corrected < SIGNIFICANT


class CellResult(BaseModel, extra="forbid"):
    """The results of a row on a column.

    Attributes:
        row: number of the row.
        column: number of the column.
        reason: why the cell was not run; empty if it was.
        failed: on how many of the questions the program failed; they score 0.
        unreadable: calls of the language model whose reply could not be read.
        cut: calls whose reply ended at the limit of tokens.
        uncounted: calls that went around the meter.
        figures: the figures in the order of the column's metrics.
        costs: means per question; None for costs that are not known.
        evidence: means of the measures of gold evidence, by metric; empty without gold passages.
        fates: the share of gold passages that had each fate of `FATES`, mean over questions.
        differs: how the setting differs from the paper's; empty if no difference is known.
        provenance: where the figures come from.
    """

    row: int
    column: int
    reason: str = ""
    questions: int = 0
    failed: int = 0
    unreadable: int = 0
    cut: int = 0
    uncounted: int = 0
    figures: list[Figure] = []
    costs: dict[str, float | None] = {}
    evidence: dict[str, float] = {}
    fates: dict[str, float] = {}
    differs: list[str] = []
    provenance: Provenance | None = None

    @property
    def spoilt(self) -> str:
        """How many calls had unreadable replies, were cut off or were not counted, in words; empty if none was."""
        counts = {"unreadable": self.unreadable, "cut off": self.cut, "not counted": self.uncounted}
        shown = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
        return f"calls: {shown}" if shown and self.uncounted else f"replies: {shown}" if shown else ""


class ExperimentResult(BaseModel, extra="forbid"):
    """A table with its results.

    Attributes:
        table: what was compared.
        baseline: label of the row that the others are tested against.
        cells: row by row.
        spent: what this run used of the language model; answers of earlier runs are not asked for again.
        limit: how many questions of each data set were asked at most; None for all.
        seed: the seed of samples, splits and intervals.
        by_seed: the results of each seed, if there are several; `cells` then holds the merged results.
    """

    table: ExperimentTable
    baseline: str
    cells: list[CellResult]
    spent: Usage = Usage()
    limit: int | None = None
    seed: int = 0
    by_seed: list[ExperimentResult] = []

    @property
    def failed(self) -> int:
        """Questions on which a program failed, in all cells."""
        return sum(cell.failed for cell in self.cells)

    def save(self, folder: str | Path) -> None:
        """Write `experiment.json` and `experiment.csv`, each atomically."""
        write_file(Path(folder) / "experiment.json", self.model_dump_json(indent=1))
        write_file(Path(folder) / "experiment.csv", self.csv())

    def csv(self) -> str:
        """One line for each row, data set and metric; with several seeds, for each seed and for all together."""
        results = (*self.by_seed, self)
        lines = [r._csv_line(cell, figure) for r in results for cell in r.cells for figure in cell.figures]
        text = io.StringIO()
        writer = csv.DictWriter(text, list(lines[0]) if lines else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
        return text.getvalue()

    def _csv_line(self, cell: CellResult, figure: Figure) -> dict[str, object]:
        ours, pair, origin = figure.ours, figure.comparison, cell.provenance
        same = "no" if cell.differs or cell.reason else "yes"
        return {
            "row": self.table.rows[cell.row].label,
            "dataset": self.table.columns[cell.column].dataset,
            "column": self.table.columns[cell.column].title,
            "metric": figure.metric,
            "seed": " ".join(str(each.seed) for each in self.by_seed or [self]),
            "sd": figure.sd,
            **{name: getattr(ours, name, None) for name in ("mean", "low", "high")},
            **{name: getattr(cell, name) for name in ("questions", "failed", "unreadable", "cut", "uncounted")},
            "difference": pair.difference if pair else None,
            "p": pair.p_value if pair else None,
            "p_corrected": figure.p_corrected,
            "paper": figure.paper,
            "same_setting": None if figure.paper is None else same,
            "differs": "; ".join(cell.differs),
            **{name: cell.costs.get(name) for name in ("lm_calls", "tokens", *PER_RIGHT_ANSWER)},
            **{name: cell.evidence.get(name) for name in EVIDENCE},
            "lm": origin.lm if origin else None,
            "retriever": origin.retriever.get("name") if origin else None,
            "not_run": cell.reason,
        }


def correct_p_values(figures: Sequence[Figure]) -> None:
    """Correct the p-values of several comparisons with one baseline, in place (Holm, 1979)."""
    compared = [(figure.comparison.p_value, figure) for figure in figures if figure.comparison is not None]
    highest = 0.0
    for rank, (p_value, figure) in enumerate(sorted(compared, key=lambda pair: pair[0])):
        highest = max(highest, min(1.0, (len(compared) - rank) * p_value))
        figure.p_corrected = highest
