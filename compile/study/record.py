"""A study as knowgap keeps it: what it was made of, its demonstrations and its plan, set up once by one worker."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from knowgap.compile.demonstrations.demo_sets import DemonstrationPool
from knowgap.compile.study.budget import Spent
from knowgap.compile.study.liveness import alive, this_worker
from knowgap.compile.study.storage import describe_storage, open_storage
from knowgap.errors import StudyError

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages import BaseStorage

__all__ = ["Mode", "Planned", "StudyRecord", "open_study", "set_up"]

Mode = Literal["single", "pareto"]
_FINGERPRINT, _SETUP, _RECORD, _POOL = "fingerprint", "setup", "record", "pool"
_STALE_SECONDS = 300.0


class Planned(BaseModel):
    """A trial that is made before any is drawn.

    Attributes:
        label: why.
        parameters: Optuna's parameters.
    """

    model_config = ConfigDict(extra="forbid")

    label: str
    parameters: dict[str, Any]


class StudyRecord(BaseModel):
    """What the workers of a study share besides its trials.

    Attributes:
        plan: trials to begin with, in their order.
        spent: what setting up cost (bootstrapping demonstrations).
        pool_pieces: in how many attributes the demonstrations are kept.
        known: values to be tried besides the defaults and the program's own.
    """

    model_config = ConfigDict(extra="forbid")

    plan: list[Planned]
    spent: Spent
    pool_pieces: int
    known: list[dict[str, Any]]


def open_study(
    study_name: str, storage: str | Path | None, mode: Mode, *, heartbeat: int, cost: str
) -> tuple[Study, BaseStorage]:
    """Open or make a study, and say where it is kept.

    Raises:
        StudyError: the storage cannot be opened, or a study of that name was made by something else.
    """
    import optuna

    place = open_storage(storage, heartbeat=heartbeat)
    goals: list[Literal["maximize", "minimize"]] = ["maximize"] if mode == "single" else ["maximize", "minimize"]
    try:
        study = optuna.create_study(storage=place, study_name=study_name, directions=goals, load_if_exists=True)
        foreign = [t.name for t in study.directions] != [goal.upper() for goal in goals]
        if foreign or (study.get_trials(deepcopy=False) and _FINGERPRINT not in study.user_attrs):
            raise StudyError(
                f"study {study_name!r} in {describe_storage(storage)} was made otherwise: take another study name"
            )
    except (KeyError, ValueError, TypeError, AttributeError) as error:  # what a foreign journal makes of its reader
        raise StudyError(f"{describe_storage(storage)} cannot be read as a study storage: {error!r}") from error
    if mode == "pareto" and not study.metric_names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names(["score", cost])
    return study, place


def set_up(
    study: Study,
    fingerprint: dict[str, Any],
    make: Callable[[Callable[[], None]], tuple[DemonstrationPool, list[Planned], list[dict[str, Any]], Spent]],
) -> tuple[StudyRecord, DemonstrationPool]:
    """Set the study up, or take over how it was set up.

    One worker does it while others wait; where that one died, another takes its place.

    Args:
        study: the study.
        fingerprint: what the study is about; a study about something else is refused.
        make: bootstraps demonstrations and plans the first trials; calls its argument now and then as a sign of life.

    Raises:
        StudyError: the study is about something else.
    """
    while True:
        attributes = study.user_attrs
        if _FINGERPRINT in attributes:
            _check(study.study_name, attributes[_FINGERPRINT], fingerprint)
        if _RECORD in attributes:
            record = StudyRecord.model_validate(attributes[_RECORD])
            pieces = [attributes[f"{_POOL}.{n}"] for n in range(record.pool_pieces)]
            return record, DemonstrationPool.join(pieces)
        if not _mine(study):
            time.sleep(0.5)
            continue
        study.set_user_attr(_FINGERPRINT, fingerprint)
        pool, plan, known, spent = make(lambda: _claim(study))
        pieces = pool.pieces()
        for n, piece in enumerate(pieces):
            study.set_user_attr(f"{_POOL}.{n}", piece)
        record = StudyRecord(plan=plan, spent=spent, pool_pieces=len(pieces), known=known)
        study.set_user_attr(_RECORD, record.model_dump(mode="json"))


def _claim(study: Study) -> None:
    study.set_user_attr(_SETUP, {**this_worker(), "at": time.time()})


def _mine(study: Study) -> bool:
    """Claim the setting up, unless a living worker is at it."""
    holder = study.user_attrs.get(_SETUP)
    if holder is not None:
        living = alive(holder)
        if living is None:
            living = time.time() - holder["at"] < _STALE_SECONDS
        if living:
            return {**this_worker(), "at": holder["at"]} == holder
    _claim(study)
    time.sleep(0.1)  # where two claim at once, the later claim stands, and both see it
    return {**this_worker(), "at": 0} == {**study.user_attrs[_SETUP], "at": 0}


def _check(name: str, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    differing = sorted(key for key in {*found, *wanted} if found.get(key) != wanted.get(key))
    if differing:
        raise StudyError(
            f"study {name!r} is about something else (it differs in: {', '.join(differing)}): take another study name"
        )
