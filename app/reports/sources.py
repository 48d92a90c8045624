"""The sources of a page: evaluations, in files and folders that are recognized by their contents."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from knowgap.compiling.evaluation.evaluator import ANSWERS, load_answers
from knowgap.compiling.evaluation.results import Evaluation
from knowgap.errors import UsageError
from knowgap.storage.files import write_file

_COMPARISON = "comparison.json"
Source = str | Path | Evaluation | Mapping[str, Evaluation]


@dataclass(frozen=True)
class ReportSource:
    """The content of a report.

    `place` is the name of the file or folder; `unfinished` are the labels of evaluations that may still lack questions.
    """

    evaluations: dict[str, Evaluation] = field(default_factory=dict)
    place: str = ""
    unfinished: tuple[str, ...] = ()


def read_source(source: Source) -> ReportSource:
    """Read the content of a source; errors are those of `knowgap.reports.report.render_report`."""
    if isinstance(source, Evaluation):
        return ReportSource({source.provenance.program or "evaluation": source})
    if isinstance(source, Mapping):
        if not source:
            raise UsageError("no evaluations: there is nothing to report")
        return ReportSource(dict(source))
    path = Path(source).expanduser()
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    folders = [folder for folder in (path, path / "evaluations") if folder.is_dir()]
    files = sorted(file for folder in folders for file in folder.iterdir()) if folders else [path]
    kinds = {each: _kind(each) for each in files if each.is_file()}
    evaluations = {each.stem: Evaluation.load(each) for each, kind in kinds.items() if kind == "evaluation"}
    answers = [each for each, kind in kinds.items() if kind == "answers"]
    unfinished = {each.stem: load_answers(each) for each in answers if each.stem not in evaluations}
    evaluations |= unfinished
    if not evaluations:
        raise UsageError(f"{path} holds no evaluations")
    labels = _labels(path, evaluations)
    by_label = {label: evaluations[stem] for stem, label in labels.items()}
    return ReportSource(by_label, path.name or str(path), tuple(labels[stem] for stem in unfinished))


def write_comparison(folder: Path, stems: Mapping[str, str]) -> None:
    """Record a comparison in a folder: the names of the evaluations' files by label, the base first."""
    write_file(folder / _COMPARISON, json.dumps(stems))


def _labels(place: Path, evaluations: Mapping[str, Evaluation]) -> dict[str, str]:
    """The labels of evaluations by the names of their files, in the order of the comparison in their folder, if any.

    An evaluation outside of the comparison is named after its program, or after its file if another has that name.
    """
    try:
        compared = {stem: label for label, stem in json.loads((place / _COMPARISON).read_text("utf-8")).items()}
    except (OSError, ValueError, AttributeError):
        compared = {}
    labels = {stem: str(label) for stem, label in compared.items() if stem in evaluations}
    programs = Counter(evaluation.provenance.program for evaluation in evaluations.values())
    for stem, evaluation in evaluations.items():
        program = evaluation.provenance.program
        is_clear = program and programs[program] == 1 and program not in labels.values()
        labels.setdefault(stem, program if is_clear else stem)
    return labels


def _kind(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(4096)
    if start.startswith(ANSWERS):
        return "answers"
    if path.suffix == ".json" and all(name in start for name in (b'"records"', b'"id"', b'"question"')):
        return "evaluation"
    return ""
