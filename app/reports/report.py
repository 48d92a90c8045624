"""Reports of evaluations, as one self-contained HTML page."""

from __future__ import annotations

from pathlib import Path

from knowgap.compiling.evaluation.provenance import Provenance
from knowgap.reports.evaluations import group_evaluations
from knowgap.reports.rendering import render
from knowgap.reports.sources import Source, read_evaluations
from knowgap.storage.files import write_file


def render_report(source: Source) -> str:
    """Render evaluations as a self-contained HTML page, which may not load anything.

    Args:
        source: the result of `evaluate`, evaluations by label, a folder that `knowgap compile` or `eval` wrote, or an
            evaluation's JSON file. Others are compared with the first, or with one that has "before" in its label.

    Raises:
        UsageError: there is nothing to report at that place.
    """
    evaluations = read_evaluations(source)
    names = list(dict.fromkeys(e.provenance.program or label for label, e in evaluations.items()))
    return render(
        "evaluation.html.jinja",
        title=f"Evaluation of {', '.join(names[:6])}" + (" and others" if len(names) > 6 else ""),
        place=Path(source).name if isinstance(source, (str, Path)) else "",
        origin=next((e.provenance for e in evaluations.values()), Provenance()),
        groups=group_evaluations(evaluations),
    )


def write_report(source: Source, path: str | Path) -> Path:
    """Write the page of `render_report` to a file in one step, and return its path."""
    return write_file(path, render_report(source))
