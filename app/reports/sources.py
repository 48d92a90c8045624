"""The evaluations that a page shows, from files and folders that are recognized by their contents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from knowgap.compiling.evaluation.results import Evaluation
from knowgap.errors import UsageError
from knowgap.storage.files import write_file

_COMPARISON = "comparison.json"
Source = str | Path | Evaluation | Mapping[str, Evaluation]


def read_evaluations(source: Source) -> dict[str, Evaluation]:
    """The evaluations of a source by label; errors are those of `knowgap.reports.report.render_report`."""
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
