"""Tables in Markdown, the words and numbers in them, and the files of public data sets."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILES = {
    "HotpotQA": "hotpotqa/*dev*.json",
    "2WikiMultihopQA": "2wikimultihopqa/*dev*.json",
    "StrategyQA": "strategyqa/*dev.json",
}
"""Data sets of questions with their pooled paragraphs, in their official layouts, in a folder of such."""


@dataclass(frozen=True)
class Table:
    """One table of a report.

    Args:
        title: what was measured.
        columns: the headings.
        rows: the cells, formatted.
        remarks: what a reader must know about the figures.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    remarks: Sequence[str] = ()

    def markdown(self) -> str:
        """Format the table, with its title above it and its remarks below."""

        def line(cells: Sequence[Any]) -> str:
            return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"

        numeric = [all(str(row[i])[:1] in "–-+0123456789" for row in self.rows) for i in range(len(self.columns))]
        rule = "|" + "|".join("---:" if right else "---" for right in numeric) + "|"
        body = [line(self.columns), rule, *map(line, self.rows)]
        return "\n".join([f"### {self.title}", "", *body, "", *(f"{remark}\n" for remark in self.remarks)])


def real_file(options: argparse.Namespace, pattern: str) -> Path | None:
    """The first file that matches a pattern in the folder `--data` or KNOWGAP_TEST_DATA; says so if there is none."""
    folder = options.data or os.environ.get("KNOWGAP_TEST_DATA")
    found = sorted(Path(folder).glob(pattern)) if folder else []
    if not found:
        note(f"left out: {pattern} in {folder or 'the folder of real data, named with --data or KNOWGAP_TEST_DATA'}")
    return next(iter(found), None)


def note(text: str) -> None:
    """Print a line about the progress to standard error."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def seconds(value: float) -> str:
    """Format a time in a fitting unit."""
    if value < 1:
        return f"{1000 * value:.1f} ms"
    return f"{value:.1f} s" if value < 100 else f"{value / 60:.1f} min"
