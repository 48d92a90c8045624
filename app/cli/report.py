"""The command that writes studies and evaluations as a page: report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from knowgap.cli.display import out


def report(
    source: Annotated[
        str,
        Argument(help="A study's file or database URL, a folder that compile or eval wrote, or an evaluation's file."),
    ],
    output: Annotated[Path, Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    study_name: Annotated[str | None, Option("--study-name", help="Which study, if the storage keeps several.")] = None,
    base: Annotated[
        str | None,
        Option(
            "--base",
            help="The evaluation that the others are compared with.",
            show_default="before, or the first",
        ),
    ] = None,
    cost: Annotated[
        str,
        Option("--cost", help="What counts as cost: lm_calls, tokens, …", show_default="the study's own"),
    ] = "",
) -> None:
    """Show a study or evaluations on one HTML page, which opens without a network."""
    from knowgap.reports.report import write_report

    page = write_report(source, output, study_name=study_name, base=base, cost=cost)
    out.print(f"written to {page}", markup=False)
