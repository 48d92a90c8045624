"""Reports of evaluations, as one self-contained HTML page, from files and folders recognized by their contents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from knowgap.compiling.evaluation.provenance import Provenance
from knowgap.compiling.evaluation.results import Evaluation
from knowgap.errors import UsageError
from knowgap.reports.evaluations import group_evaluations
from knowgap.reports.rendering import render
from knowgap.storage.files import write_file

_COMPARISON = "comparison.json"
Source = str | Path | Evaluation | Mapping[str, Evaluation]


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


def read_evaluations(source: Source) -> dict[str, Evaluation]:
    """The evaluations of a source by label; errors are those of `render_report`."""
    if isinstance(source, Evaluation):
        return {source.provenance.program or "evaluation": source}
    if isinstance(source, Mapping):
        if not source:
            raise UsageError("no evaluations: there is nothing to report")
        return dict(source)
    path = Path(source).expanduser()
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    folders = [folder for folder in (path, path / "evaluations") if folder.is_dir()]
    files = sorted(file for folder in folders for file in folder.glob("*.json")) if folders else [path]
    found = {file.stem: Evaluation.load(file) for file in files if _is_evaluation(file)}
    if not found:
        raise UsageError(f"{path} holds no evaluations")
    compared = json.loads((path / _COMPARISON).read_text("utf-8")) if (path / _COMPARISON).exists() else {}
    labels = {stem: label for label, stem in compared.items() if stem in found}
    return {labels.get(stem, stem): found[stem] for stem in dict.fromkeys([*labels, *found])}


def write_comparison(folder: Path, stems: Mapping[str, str]) -> None:
    """Record a comparison in a folder: the names of the evaluations' files by label, the base first."""
    write_file(folder / _COMPARISON, json.dumps(stems))


def _is_evaluation(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(4096)
    return path.suffix == ".json" and all(name in start for name in (b'"records"', b'"id"', b'"question"'))
