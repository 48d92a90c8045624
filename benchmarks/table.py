"""Tables in Markdown, and the words and numbers in them."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Collection, Sequence
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


def some_of(known: Collection[str], separator: str = ",") -> Callable[[str], list[str]]:
    """Return a type of option: names among those that are known, with separators between them."""

    def parse(text: str) -> list[str]:
        names = text.split(separator)
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"there is no {unknown[0]!r}: choose among {separator.join(known)}")
        return names

    return parse


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


def percentile(values: Sequence[float], fraction: float) -> float:
    """The smallest value that at least this fraction of the values does not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(fraction * len(values)) - 1)]


def ratio(value: float, base: float) -> str:
    """Format `value / base`."""
    return f"{value / base:.2f}" if base else "–"


def seconds(value: float) -> str:
    """Format a time in a fitting unit."""
    if value < 1:
        return f"{1000 * value:.1f} ms"
    return f"{value:.1f} s" if value < 100 else f"{value / 60:.1f} min"
