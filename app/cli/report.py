"""The command that writes evaluations as a page: report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from knowgap.cli.display import out


def report(
    source: Annotated[str, Argument(help="A folder that compile or eval wrote, or an evaluation's file.")],
    output: Annotated[Path, Option("--output", "-o", help="The page to write.")] = Path("report.html"),
) -> None:
    """Show evaluations on one HTML page, which opens without a network."""
    from knowgap.reports.report import write_report

    out.print(f"written to {write_report(source, output)}", markup=False)
