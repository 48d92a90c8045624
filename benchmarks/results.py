"""Print the tables of docs/results.md from the recorded answers: no language model, no data set and no index is needed.

    python benchmarks/results.py

A recording is a file of JSON Lines in benchmarks/recorded: what was asked (model, questions, program, commit), then one
line for each question. Questions, reference answers and passages stay with their data sets. `benchmarks/record.py`
makes them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist, fmean, variance
from typing import Any, NamedTuple

from table import Table

from knowgap.compiling.evaluation.statistics import Comparison, holm, mean_interval, paired_comparison

RECORDED = Path(__file__).parent / "recorded"
BASELINE = "rag"
MOST_CUT = 0.1
"""The share of questions with a reply at its limit, above which a row is left out."""
WITHOUT_GOLD = " without the gold passages"
_EVIDENCE = {"found": "found", "in the answering prompt": "answering", "named": "named", "precision": "precision"}


class Recording(NamedTuple):
    """The answers of one program.

    Attributes:
        about: model, questions, program, settings and commit.
        lines: a question each: its id, `scores` from 0 to 1, calls, tokens, `unreadable` and `cut` replies,
            `supported` and `error`.
    """

    about: dict[str, Any]
    lines: list[dict[str, Any]]

    def column(self, name: str) -> list[float]:
        """A number of every question; where it is not defined, as of a question that failed, it is 0."""
        return [float(line.get(name) or 0) for line in self.lines]

    def mean(self, name: str) -> float:
        """The mean of a number over all questions."""
        return sum(self.column(name)) / len(self.lines)

    def shown(self, name: str, form: str) -> str:
        """The mean of a number in a format; a dash if no question has it."""
        return format(self.mean(name), form) if any(name in line for line in self.lines) else "–"

    @property
    def cut(self) -> float:
        """The share of the questions in which a reply ended at its limit."""
        return sum(count > 0 for count in self.column("cut")) / len(self.lines)

    def on(self, other: Recording) -> Recording:
        """The questions that the other recording has, too."""
        asked = {line["id"] for line in other.lines}
        return self._replace(lines=[line for line in self.lines if line["id"] in asked])


def read(folder: Path) -> list[Recording]:
    """Read the recordings of a folder."""
    files = (file.read_text(encoding="utf-8").splitlines() for file in sorted(folder.glob("*.jsonl")))
    return [Recording(json.loads(about), [json.loads(line) for line in lines]) for about, *lines in files]


def tables(recordings: Sequence[Recording]) -> list[Table]:
    """A table for each model and set of questions, with the baseline first; below it, the rows that are left out."""
    groups: dict[tuple[str, str], list[Recording]] = {}
    for recording in sorted(recordings, key=lambda row: (row.about["program"] != BASELINE, row.about["order"])):
        groups.setdefault((recording.about["model"], recording.about["questions"]), []).append(recording)
    made = []
    for (model, questions), rows in sorted(groups.items()):
        whole = groups[model, questions.removesuffix(WITHOUT_GOLD)]
        kept = [row for row in rows if row.cut <= MOST_CUT]
        columns, cells = _verdicts(kept, whole) if WITHOUT_GOLD in questions else _scores(rows, kept)
        cut = ", ".join(f"{row.about['label']} ({row.cut:.0%})" for row in rows if row not in kept)
        why = f"Left out, since a reply ended at its limit in more than a tenth of the questions: {cut}."
        made.append(Table(f"{model}, {questions}", columns, cells, [why] if cut else []))
    return made


def _scores(rows: Sequence[Recording], kept: Sequence[Recording]) -> tuple[list[str], list[list[Any]]]:
    """Columns and cells of scores; p-values are corrected for all rows, also those that are left out.

    Nothing is compared with a baseline that is left out.
    """
    baseline, compared = rows[0], dict[str, Comparison]()
    if baseline in kept:
        compared = {row.about["label"]: paired_comparison("f1", *_paired(baseline, row)) for row in rows[1:]}
        holm(compared.values())
    cells = []
    for row in kept:
        f1, calls, right = mean_interval(row.column("f1")), row.mean("calls"), row.mean("exact_match")
        beside = ["–", "–", "–"]
        if test := compared.get(row.about["label"]):
            before, after = _paired(baseline, row)
            beside = [f"{100 * fmean(before):.1f}", f"{test.p_corrected:.3f}", _needed(before, after)]
        cells.append(
            [
                row.about["label"],
                len(row.lines),
                f"{100 * f1.mean:.1f} [{100 * f1.low:.1f}, {100 * f1.high:.1f}]",
                *beside,
                f"{100 * right:.1f}",
                *(row.shown(name, ".2f") for name in _EVIDENCE.values()),
                row.shown("searches", ".1f"),
                f"{calls:.1f}",
                row.shown("tokens", ".0f"),
                f"{calls / right:.1f}" if right else "–",
                row.shown("seconds", ".0f"),
                f"{sum(row.column('unreadable')) / max(1.0, sum(row.column('calls'))):.1%}",
                f"{row.cut:.0%}",
            ]
        )
    columns = ["program", "questions", "F1 [95%]", f"{BASELINE} on these", "p", "questions to show it", "exact match"]
    columns += [*_EVIDENCE, "searches", "calls", "tokens", "calls per right answer", "seconds", "unreadable replies"]
    return [*columns, "questions with a reply at its limit"], cells


def _paired(baseline: Recording, row: Recording) -> tuple[list[float], list[float]]:
    """F1 of the baseline and of another row, on the questions that both were asked."""
    before = {line["id"]: score for line, score in zip(baseline.lines, baseline.column("f1"), strict=True)}
    shared = row.on(baseline)
    return [before[line["id"]] for line in shared.lines], shared.column("f1")


def _needed(before: Sequence[float], after: Sequence[float]) -> str:
    """How many questions show the difference that was seen, if it is the true one, in four of five comparisons.

    By the normal approximation for paired scores, at 5%; a dash if there is no difference.
    """
    differences = [b - a for a, b in zip(before, after, strict=True)]
    normal = NormalDist()
    reach = normal.inv_cdf(0.975) + normal.inv_cdf(0.8)
    return f"{reach**2 * variance(differences) / fmean(differences) ** 2:,.0f}" if fmean(differences) else "–"


def _verdicts(rows: Sequence[Recording], whole: Sequence[Recording]) -> tuple[list[str], list[list[Any]]]:
    """How many answers are called supported, and how many of the same questions were where the index was whole."""
    same = {row.about["label"]: row for row in whole}
    cells = []
    for row in rows:
        with_gold = same.get(row.about["label"], Recording({}, []))
        beside = [with_gold.on(row).shown(name, ".0%") for name in ("supported", "exact_match")]
        said = [line["supported"] for line in with_gold.lines if line.get("exact_match") and "supported" in line]
        refused = f"{said.count(False)} of {len(said)}" if said else "–"
        cells.append([row.about["label"], len(row.lines), row.shown("supported", ".0%"), *beside, refused])
    columns = ["program", "questions", "answered as supported", "the same with the gold passages", "right with them"]
    return [*columns, "of all right answers, refused"], cells


if __name__ == "__main__":
    for table in tables(read(RECORDED)):
        sys.stdout.write(table.markdown() + "\n")
