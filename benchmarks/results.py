"""Print the tables of docs/results.md from the recorded answers: no language model, no data set and no index is needed.

    python benchmarks/results.py [--first N]

A recording is a file of JSON Lines in benchmarks/recorded: what was asked (model, questions, program, commit), then one
line for each question. Questions, reference answers and passages stay with their data sets.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from table import Table

from knowgap.compiling.evaluation.statistics import Comparison, holm, mean_interval, paired_comparison

RECORDED = Path(__file__).parent / "recorded"
BASELINE = "rag"
_WITHOUT = " without the gold passages"
_SCORES = {"F1": "f1", "exact match": "exact_match"}
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


def read(folder: Path, first: int | None = None) -> list[Recording]:
    """Read the recordings of a folder, or the first questions of each."""
    found = []
    for file in sorted(folder.glob("*.jsonl")):
        about, *lines = (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
        found.append(Recording(about, lines[:first]))
    return found


def tables(recordings: Sequence[Recording]) -> list[Table]:
    """A table for each model and set of questions, with the baseline first."""
    groups: dict[tuple[str, str], list[Recording]] = {}
    for recording in recordings:
        groups.setdefault((recording.about["model"], recording.about["questions"]), []).append(recording)
    return [
        _verdicts(*key, rows, recordings) if _WITHOUT in key[1] else _table(*key, rows) for key, rows in groups.items()
    ]


def _table(model: str, questions: str, rows: Sequence[Recording]) -> Table:
    baseline = next(row for row in rows if row.about["program"] == BASELINE)
    others = sorted((row for row in rows if row is not baseline), key=lambda row: row.about["order"])
    compared = [_compared(baseline, row) for row in others]
    holm(compared)
    cells = [_cells(baseline, "–", "–")]
    for row, each in zip(others, compared, strict=True):
        cells.append(_cells(row, f"{100 * _on_the_same(baseline, row, 'f1'):.1f}", f"{each.p_corrected:.3f}"))
    columns = ["program", "questions", "F1 [95%]", f"{BASELINE} on these", "p", "exact match", *_EVIDENCE]
    columns += [
        "calls",
        "tokens",
        "calls per right answer",
        "unreadable replies",
        "questions with a reply at its limit",
    ]
    return Table(f"{model}, {questions}", columns, cells)


def _on_the_same(whole: Recording, row: Recording, name: str) -> float:
    """The mean of a number of one recording over the questions of another."""
    asked = {line["id"] for line in row.lines}
    return whole._replace(lines=[line for line in whole.lines if line["id"] in asked]).mean(name)


def _cells(row: Recording, baseline: str, p_value: str) -> list[Any]:
    f1, calls, right = mean_interval(row.column("f1")), row.mean("calls"), row.mean("exact_match")
    cut = sum(count > 0 for count in row.column("cut")) / len(row.lines)
    return [
        row.about["label"],
        len(row.lines),
        f"{100 * f1.mean:.1f} [{100 * f1.low:.1f}, {100 * f1.high:.1f}]",
        baseline,
        p_value,
        f"{100 * right:.1f}",
        *(f"{row.mean(name):.2f}" if any(name in line for line in row.lines) else "–" for name in _EVIDENCE.values()),
        f"{calls:.1f}",
        f"{row.mean('tokens'):.0f}",
        f"{calls / right:.1f}" if right else "–",
        f"{sum(row.column('unreadable')) / max(1.0, sum(row.column('calls'))):.1%}",
        f"{cut:.0%}",
    ]


def _compared(baseline: Recording, row: Recording) -> Comparison:
    """Paired with the baseline on the questions that both were asked."""
    before = {line["id"]: float(line.get("f1") or 0) for line in baseline.lines}
    after = {line["id"]: float(line.get("f1") or 0) for line in row.lines if line["id"] in before}
    return paired_comparison("f1", [before[name] for name in after], list(after.values()))


def _verdicts(model: str, questions: str, rows: Sequence[Recording], recordings: Sequence[Recording]) -> Table:
    """How many answers are called supported, and how many of the same questions were where the index was whole."""
    where = (model, questions.removesuffix(_WITHOUT))
    whole = {r.about["label"]: r for r in recordings if (r.about["model"], r.about["questions"]) == where}
    cells = []
    for row in sorted(rows, key=lambda row: row.about["order"]):
        beside = (f"{_on_the_same(whole[row.about['label']], row, name):.0%}" for name in ("supported", "exact_match"))
        cells.append([row.about["label"], len(row.lines), f"{row.mean('supported'):.0%}", *beside])
    columns = ["program", "questions", "answered as supported", "the same with the gold passages", "right with them"]
    return Table(f"{model}, {questions}", columns, cells)


def main() -> None:
    """Read the command line and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, metavar="N", help="only the first N questions of each recording")
    options = parser.parse_args()
    for table in tables(read(RECORDED, options.first)):
        sys.stdout.write(table.markdown() + "\n")


if __name__ == "__main__":
    main()
