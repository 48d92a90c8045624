"""A study that several processes share: what all of them know, and what happens when a process dies.

Optuna's storage keeps everything. Processes that make the same call work together as follows.

1. **Beginning.** The study's attribute `about` says what the study is about; another call under the same name is
   refused. Every process enqueues those initial trials that are missing. If two do so at once, a trial exists twice,
   and the second takes over the result of the first.
2. **Trials.** A process takes the first waiting trial, which is one step in every storage, or draws a new one. The
   trial that first shows a program its bootstrapped demonstrations makes and stores them.
3. **Death.** In a database, a running trial has a heartbeat. After four missed ones any process fails the trial and
   enqueues it again (Optuna's `RetryHeartbeatStaleTrialCallback`). A process that works on a file holds a shared lock.
   One that starts alone therefore knows that no trial of its study is running, and fails those that seem to be.
4. **End.** A process stops when `n_trials` trials are finished. The others finish the trials that they are running, so
   that a study may have a few more trials than were asked for.
5. **Seed.** With one process, a study follows from its seed, also when it is continued. With several it does not: what
   a trial draws depends on which other trials are finished by then.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optuna.trial import TrialState

from knowgap.compiling.demonstrations.demo_sets import DemoSets
from knowgap.compiling.evaluation.provenance import digest
from knowgap.compiling.study.config import StudyConfig
from knowgap.compiling.study.storage import open_storage, storage_file
from knowgap.errors import StudyError, UsageError

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages import BaseStorage

ABOUT = "about"
"""The study attribute that says what the study is about."""

_DEMOS = "demonstrations"
_PIECE = 20_000  # characters; MySQL's columns take 65,535 bytes


@contextmanager
def shared_study(
    study_name: str,
    storage: str | Path | BaseStorage | None,
    own: Study | None,
    *,
    config: StudyConfig,
    about: Mapping[str, Any],
) -> Iterator[Study]:
    """Open a study, or create it, and let this process work on it.

    `own` is a study of the user's, which is used instead of one in the storage (see `open_storage`); `about` says what
    the study is about, as JSON values by name.

    Raises:
        StudyError: the storage cannot be opened, or its study of that name is about something else.
        UsageError: a study of the user's has other objectives.
    """
    import optuna
    from optuna.study import StudyDirection

    directions = [StudyDirection.MAXIMIZE, *(StudyDirection.MINIMIZE for _ in config.minimized)]
    if own is not None and own.directions != directions:
        names = [direction.name.lower() for direction in directions]
        raise UsageError(f"study {own.study_name!r}: create it with directions={names}: the score, then each cost")
    with open_storage(storage, heartbeat=config.heartbeat) if own is None else nullcontext() as opened:
        study = own or optuna.create_study(
            storage=opened, study_name=study_name, directions=directions, load_if_exists=True
        )
        wanted: dict[str, Any] = json.loads(json.dumps(about, default=str))
        if ABOUT not in study.user_attrs and not study.get_trials(deepcopy=False):
            study.set_user_attr(ABOUT, wanted)
        stored = study.user_attrs.get(ABOUT, {})
        differing = sorted(key for key in {*stored, *wanted} if stored.get(key) != wanted.get(key))
        if differing:
            where = f" in {storage}" if isinstance(storage, (str, Path)) else ""
            raise StudyError(
                f"study {study.study_name!r}{where} is about something else (it differs in: {', '.join(differing)}): "
                "choose another study name (--study-name)"
            )
        if config.minimized:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                study.set_metric_names(["score", *config.minimized])
        path = storage_file(storage) if own is None else None
        with nullcontext() if path is None else _sharing_file(study, path):
            yield study


def store_demos(study: Study, program: str, demos: DemoSets) -> None:
    """Keep the demonstration sets of a program for all processes; the last attribute says that they are complete."""
    text = demos.model_dump_json()
    pieces = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
    for number, piece in enumerate(pieces):
        study.set_user_attr(f"{_DEMOS}.{program}.{number}", piece)
    study.set_user_attr(f"{_DEMOS}.{program}", len(pieces))


def read_demos(study: Study) -> dict[str, DemoSets]:
    """The demonstration sets that trials have stored, by program."""
    stored, made = study.user_attrs, dict[str, DemoSets]()
    for name, count in stored.items():
        if name.startswith(f"{_DEMOS}.") and isinstance(count, int):
            text = "".join(stored[f"{name}.{number}"] for number in range(count))
            made[name.removeprefix(f"{_DEMOS}.")] = DemoSets.model_validate_json(text)
    return made


@contextmanager
def _sharing_file(study: Study, path: Path) -> Iterator[None]:
    """Share a study in a file; a process that starts alone fails the trials that dead ones left running."""
    from filelock import ReadWriteLock, Timeout

    lock = ReadWriteLock(path.with_name(f"{path.name}.{digest(study.study_name)[:8]}.workers"), is_singleton=False)
    try:
        with suppress(Timeout), lock.write_lock(timeout=0):
            for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
                study.tell(trial.number, state=TrialState.FAIL)
        with lock.read_lock():
            yield
    finally:
        lock.close()
