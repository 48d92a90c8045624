"""Tables in Markdown, and the words and numbers in them."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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


def data_folder(options: argparse.Namespace) -> Path | None:
    """Return the folder of real data, from `--data` or KNOWGAP_TEST_DATA; None where neither exists."""
    named = options.data or os.environ.get("KNOWGAP_TEST_DATA")
    folder = Path(named) if named else None
    if options.data and not options.data.is_dir():
        raise SystemExit(f"--data {options.data}: there is no such folder")
    return folder if folder and folder.is_dir() else None


def note(text: str) -> None:
    """Print a line about the progress to standard error."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def seconds(value: float) -> str:
    """Format a time in a fitting unit."""
    if value < 1:
        return f"{1000 * value:.1f} ms"
    return f"{value:.1f} s" if value < 100 else f"{value / 60:.1f} min"
