"""Reports of evaluations, as one self-contained HTML page."""

from __future__ import annotations

from pathlib import Path

from knowgap.compiling.evaluation.provenance import Provenance
from knowgap.compiling.evaluation.results import Evaluation
from knowgap.reports.evaluations import group_evaluations
from knowgap.reports.rendering import render
from knowgap.reports.sources import Source, read_source
from knowgap.storage.files import write_file


def render_report(source: Source, *, base: str | None = None) -> str:
    """Render evaluations as an HTML page.

    Args:
        source: the result of `evaluate`, evaluations by label, a folder that `knowgap compile` or `eval` wrote, an
            evaluation's JSON file, or a file of answers.
        base: label of the evaluation that the others are compared with; by default one with "before" in its label, or
            the first.

    Returns:
        A self-contained HTML page, which may not load anything.

    Raises:
        UsageError: there is nothing to report at that place.
        DataError: a file of answers is damaged.
        UnknownName: no evaluation is called `base`.
    """
    report = read_source(source)
    groups = group_evaluations(report.evaluations, base=base)
    return render(
        "evaluation.html.jinja",
        title=_title(report.evaluations),
        report=report,
        origin=next((e.provenance for group in groups for e in group.evaluations.values()), Provenance()),
        groups=groups,
    )


def write_report(source: Source, path: str | Path, *, base: str | None = None) -> Path:
    """Write the page of `render_report` to a file in one step, and return its path."""
    return write_file(path, render_report(source, base=base))


def _title(evaluations: dict[str, Evaluation]) -> str:
    names = list(dict.fromkeys(e.provenance.program or label for label, e in evaluations.items()))
    return f"Evaluation of {', '.join(names[:6])}" + (" and others" if len(names) > 6 else "")
