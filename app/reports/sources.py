"""What a report is made from: studies, runs' folders and evaluations, found by what is in a file, not by its name."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import optuna
import orjson
from pydantic import ValidationError

from knowgap.compile.artifact import read_config
from knowgap.compile.evaluation.provenance import Provenance, digest
from knowgap.compile.evaluation.quiet import quiet
from knowgap.compile.evaluation.results import Evaluation
from knowgap.compile.evaluation.runner import QuestionRecord
from knowgap.compile.study.storage import describe_storage, open_storage
from knowgap.compile.study.summary import StudyFacts, matching, read_study
from knowgap.compile.study.tuning import Tuning
from knowgap.errors import DataError, StudyError, UsageError

if TYPE_CHECKING:
    from optuna import Study

__all__ = ["Findings", "Source", "find"]

Source = str | Path | Tuning[Any] | Evaluation | Mapping[str, Evaluation]
Kind = Literal["sqlite", "journal", "answers", "evaluation", ""]

_ANSWERS = b'{"kind":"knowgap evaluation"'
_SPLITS = {digest(split)[:16]: split for split in ("train", "dev", "test")}


@dataclass(frozen=True)
class Findings:
    """What there is to report.

    Attributes:
        study: a study, if there is one.
        evaluations: by label.
        artifact: the `config.json` of the compiled program, if there is one.
        questions: ids of the dev questions in the order of the trials' scores, where they are known.
        place: where it was found, in words.
        unfinished: labels of evaluations that may still lack questions.
    """

    study: StudyFacts | None = None
    evaluations: dict[str, Evaluation] = field(default_factory=dict)
    artifact: dict[str, Any] | None = None
    questions: list[str] = field(default_factory=list)
    place: str = ""
    unfinished: tuple[str, ...] = ()


def find(source: Source, *, study_name: str | None = None, cost: str = "") -> Findings:
    """Read what a source holds.

    Args:
        source: what `tune` or `evaluate` returned, evaluations by label, a study's file or database URL, a folder that
            `knowgap compile`, `tune`, `eval` or `compare` wrote, an evaluation's JSON file or a file of answers.
        study_name: which study, where the storage keeps several.
        cost: what counts as cost in a study.

    Raises:
        UsageError: there is nothing to report at that place.
        StudyError: the study cannot be read, or there are several.
        DataError: a file of answers is damaged.
    """
    match source:
        case Tuning():
            facts = read_study(source.study, cost=cost or source.cost, chosen=source.best)
            return Findings(study=facts, questions=source.questions)
        case Evaluation():
            return Findings(evaluations={source.provenance.program or "evaluation": source})
        case Mapping():
            if not source:
                raise UsageError("no evaluations: there is nothing to report")
            return Findings(evaluations=dict(source))
        case _:
            return _find_at(str(source), study_name, cost)


def _find_at(place: str, study_name: str | None, cost: str) -> Findings:
    if "://" in place:
        return Findings(study=_study(place, study_name, cost), place=describe_storage(place))
    path = Path(place).expanduser()
    if path.is_dir():
        return _folder(path, study_name, cost)
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    match _kind(path):
        case "sqlite" | "journal" as kind:
            return Findings(study=_study(_storage_name(path, kind), study_name, cost), place=path.name)
        case "evaluation":
            return Findings(evaluations={path.stem: Evaluation.load(path)}, place=path.name)
        case "answers":
            return Findings(evaluations={path.stem: _answers(path)}, place=path.name, unfinished=(path.stem,))
        case _:
            raise UsageError(f"{path} holds neither a study nor an evaluation")


def _folder(folder: Path, study_name: str | None, cost: str) -> Findings:
    files = sorted(p for place in (folder, folder / "evaluations") if place.is_dir() for p in place.iterdir())
    kinds = {path: _kind(path) for path in files if path.is_file()}
    studies = [(path, kind) for path, kind in kinds.items() if kind in ("sqlite", "journal")]
    evaluations = {path.stem: Evaluation.load(path) for path, kind in kinds.items() if kind == "evaluation"}
    answers = {p.stem: _answers(p) for p, kind in kinds.items() if kind == "answers" and p.stem not in evaluations}
    artifact = next((place for place in (folder, folder / "artifact") if (place / "config.json").exists()), None)
    config = read_config(artifact) if artifact is not None else None
    if len(studies) > 1:
        names = ", ".join(path.name for path, _ in studies)
        raise UsageError(f"{folder} holds several studies ({names}): name one of these files")
    if not studies and not evaluations and not answers and config is None:
        raise UsageError(f"{folder} holds neither a study, nor evaluations, nor a compiled program")
    study = _study(_storage_name(*studies[0]), study_name, cost) if studies else None
    if study is not None and config is not None:
        same = matching(study.trials, config["hyperparameters"], config["demonstrations"], study.pool)
        study = replace(study, chosen=same or study.chosen)
    return Findings(
        study=study,
        evaluations={**evaluations, **answers},
        artifact=config,
        place=folder.name or str(folder),
        unfinished=tuple(answers),
    )


def _kind(path: Path) -> Kind:
    with path.open("rb") as file:
        start = file.read(4096)
    if start.startswith(b"SQLite format 3\x00"):
        return "sqlite" if _has_studies(path) else ""
    if start.startswith(_ANSWERS):
        return "answers"
    if start.startswith(b"{") and b'"op_code"' in start.partition(b"\n")[0]:
        return "journal"
    if path.suffix == ".json" and all(name in start for name in (b'"records"', b'"id"', b'"question"')):
        return "evaluation"
    return ""


def _has_studies(path: Path) -> bool:
    """Whether a database is Optuna's; it is opened for reading alone, so that a foreign one stays as it is."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE name = 'studies'").fetchall()
    except sqlite3.DatabaseError:
        return False
    finally:
        connection.close()
    return bool(tables)


def _storage_name(path: Path, kind: str) -> str:
    return f"sqlite:///{path}" if kind == "sqlite" else str(path)


def _study(storage: str, study_name: str | None, cost: str) -> StudyFacts:
    shown = describe_storage(storage)
    with quiet():
        place = open_storage(storage)
        names = sorted(optuna.get_all_study_names(place))
        if not names:
            raise StudyError(f"{shown} holds no study")
        if study_name is None and len(names) > 1:
            raise StudyError(f"{shown} holds several studies: name one with --study-name: {', '.join(names)}")
        name = study_name or names[0]
        if name not in names:
            raise StudyError(f"{shown} holds no study {name!r}: there are {', '.join(names)}")
        study: Study = optuna.load_study(study_name=name, storage=place)
        return read_study(study, cost=cost)


def _answers(path: Path) -> Evaluation:
    """The records of a file of answers, which does not say everything that an evaluation says."""
    records: dict[str, QuestionRecord] = {}
    identity: dict[str, str] = {}
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):  # the last piece may be cut short
        try:
            if number == 1:
                identity = dict(orjson.loads(line)["identity"])
            else:
                record = QuestionRecord.model_validate_json(line)
                records[record.id] = record
        except (orjson.JSONDecodeError, ValidationError, KeyError, TypeError, ValueError):
            raise DataError("damaged line", path=path, line=number) from None
    if not records:
        raise DataError("no question has been answered yet", path=path)
    names = dict.fromkeys(name for record in records.values() for name in record.scores)
    metrics = [name for name in names if not name.startswith("recall@")]
    origin = Provenance(split=_SPLITS.get(identity.get("split", ""), ""), data=f"answers:{identity.get('data', '')}")
    return Evaluation(records=list(records.values()), metrics=metrics or list(names), provenance=origin)
