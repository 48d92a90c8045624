"""The command that writes studies and evaluations as a page: report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from knowgap.cli.display import out

__all__ = ["COMMANDS", "report"]


def report(
    source: Annotated[
        str,
        typer.Argument(
            help="A study's file or database URL; the folder that compile, tune, eval or compare wrote; "
            "or an evaluation's file."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    study_name: Annotated[
        str | None, typer.Option("--study-name", help="Which study, if the storage keeps several.")
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            "--base", help="The evaluation that the others are compared with. (Without it: before, or the first.)"
        ),
    ] = None,
    cost: Annotated[
        str,
        typer.Option(
            "--cost", help="What counts as cost: lm_calls, tokens, passages, seconds, … (Without it: the study's own.)"
        ),
    ] = "",
) -> None:
    """Show a study or evaluations on one HTML page, which opens without a network."""
    from knowgap.reports.report import write_report

    page = write_report(source, output, study_name=study_name, base=base, cost=cost)
    out.print(f"written to {page}", markup=False)


COMMANDS = {"report": report}
