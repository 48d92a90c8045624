"""The sources of a page: studies, folders of runs, and evaluations, recognized by the contents of files."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import optuna

from knowgap.compiling.artifact import read_config
from knowgap.compiling.evaluation.evaluator import ANSWERS, load_answers
from knowgap.compiling.evaluation.quiet import quiet
from knowgap.compiling.evaluation.results import Evaluation
from knowgap.compiling.study.run import StudyResult
from knowgap.compiling.study.storage import open_storage
from knowgap.compiling.study.summary import StudyFacts, matching, read_study
from knowgap.errors import StudyError, UsageError, without_credentials
from knowgap.storage.files import write_file

_COMPARISON = "comparison.json"
Source = str | Path | StudyResult[Any] | Evaluation | Mapping[str, Evaluation]


@dataclass(frozen=True)
class ReportSource:
    """The content of a report.

    `artifact` is the `config.json` of the compiled program; `questions` are the ids of the dev questions in the order
    of the trials' scores, if they are known; `place` is the name of the file, folder or database; `unfinished` are the
    labels of evaluations that may still lack questions.
    """

    study: StudyFacts | None = None
    evaluations: dict[str, Evaluation] = field(default_factory=dict)
    artifact: dict[str, Any] | None = None
    questions: list[str] = field(default_factory=list)
    place: str = ""
    unfinished: tuple[str, ...] = ()


def read_source(source: Source, *, study_name: str | None = None, cost: str = "") -> ReportSource:
    """Read the content of a source; arguments and errors are those of `knowgap.reports.report.render_report`."""
    match source:
        case StudyResult():
            facts = replace(read_study(source.study, cost=cost or source.cost), chosen=source.best)
            return ReportSource(study=facts, questions=source.questions)
        case Evaluation():
            return ReportSource(evaluations={source.provenance.program or "evaluation": source})
        case Mapping():
            if not source:
                raise UsageError("no evaluations: there is nothing to report")
            return ReportSource(evaluations=dict(source))
    if "://" in str(source):
        return ReportSource(study=_load_study(str(source), study_name, cost), place=without_credentials(str(source)))
    path = Path(source).expanduser()
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    folders = [folder for folder in (path, path / "evaluations") if folder.is_dir()]
    files = sorted(file for folder in folders for file in folder.iterdir()) if folders else [path]
    report = _read_files(path, files, study_name, cost)
    if report.study is None and not report.evaluations and report.artifact is None:
        raise UsageError(f"{path} holds neither a study, nor evaluations, nor a compiled program")
    return report


def _read_files(place: Path, files: list[Path], study_name: str | None, cost: str) -> ReportSource:
    kinds = {path: _kind(path) for path in files if path.is_file()}
    studies = [path for path, kind in kinds.items() if kind in ("sqlite", "journal")]
    if len(studies) > 1:
        names = ", ".join(path.name for path in studies)
        raise UsageError(f"{place} holds several studies ({names}): name one of these files")
    evaluations = {path.stem: Evaluation.load(path) for path, kind in kinds.items() if kind == "evaluation"}
    answers = {p.stem: load_answers(p) for p, kind in kinds.items() if kind == "answers" and p.stem not in evaluations}
    labels = _labels(place, evaluations | answers)
    artifact = next((p for p in (place, place / "artifact") if (p / "config.json").exists()), None)
    config = read_config(artifact) if artifact is not None else None
    study = None
    if studies:
        storage = f"sqlite:///{studies[0]}" if kinds[studies[0]] == "sqlite" else str(studies[0])
        study = _load_study(storage, study_name, cost)
        if config is not None:
            saved = matching(study, config["program"], config["hyperparameters"], config["demonstrations"])
            study = replace(study, chosen=saved or study.chosen)
    return ReportSource(
        study=study,
        evaluations={label: (evaluations | answers)[stem] for stem, label in labels.items()},
        artifact=config,
        place=place.name or str(place),
        unfinished=tuple(labels[stem] for stem in answers),
    )


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
    if start.startswith(b"SQLite format 3\x00"):
        return "sqlite" if _has_studies(path) else ""
    if start.startswith(ANSWERS):
        return "answers"
    if start.startswith(b"{") and b'"op_code"' in start.partition(b"\n")[0]:
        return "journal"
    if path.suffix == ".json" and all(name in start for name in (b'"records"', b'"id"', b'"question"')):
        return "evaluation"
    return ""


def _has_studies(path: Path) -> bool:
    """Whether a database is Optuna's; it is opened read-only, so that one of another program is not changed."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'studies'").fetchall())
    except sqlite3.DatabaseError:
        return False
    finally:
        connection.close()


def _load_study(storage: str, study_name: str | None, cost: str) -> StudyFacts:
    place = without_credentials(storage)
    with quiet(), open_storage(storage) as opened:
        names = sorted(optuna.get_all_study_names(opened))
        if study_name is None and len(names) > 1:
            raise StudyError(f"{place} holds several studies: name one with --study-name: {', '.join(names)}")
        name = study_name or next(iter(names), "")
        if name not in names:
            raise StudyError(f"{place} holds no study {name!r}: there are {', '.join(names) or 'none'}")
        return read_study(optuna.load_study(study_name=name, storage=opened), cost=cost)
