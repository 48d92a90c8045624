"""A study that several processes share: who sets it up, who runs which trial, and what becomes of a process that dies.

Everything is kept by Optuna: trials, their states and attributes in the study's storage. Processes that make the same
call work together as follows.

1. **Set-up.** One process stores what the study is about (the fingerprint), bootstraps the demonstrations, lists the
   initial trials and enqueues them, while it holds a lock; the others wait. The system takes the lock of a file back
   from a process that dies, a database server that of a closed connection: the next process then starts the set-up
   again. A study is set up once its record is stored, which happens last. In a study of several programs, the trial
   that first shows a program its bootstrapped demonstrations makes and stores them, so that one process does.
2. **Trials.** Each process runs `study.optimize`. It takes the first waiting trial, which is one step in every storage,
   or else draws a new one. Nobody waits for another's trial.
3. **Death.** In a database, a running trial has a heartbeat. After four missed ones any process fails the trial and
   enqueues it again (Optuna's `RetryHeartbeatStaleTrialCallback`). A journal file has no heartbeats. For journal and
   SQLite files, every process therefore holds a shared lock while it works; one that gets the lock exclusively when it
   starts is alone, and fails all running trials. Those of the initial trials that failed are enqueued again whenever a
   process starts.
4. **End.** A process stops when `n_trials` trials are finished. Trials that others are running at that time are
   finished as well, so that a study of several processes may have a few more trials than were asked for.
5. **Seed.** With one process, a study follows from its seed, also when it is continued. With several it does not: what
   a trial draws depends on which other trials are finished by then.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optuna.trial import TrialState
from pydantic import BaseModel

from knowgap.compiling.demonstrations.demo_sets import DemoSets
from knowgap.compiling.evaluation.provenance import digest
from knowgap.compiling.study.config import StudyConfig
from knowgap.compiling.study.storage import close_storage, describe_storage, open_storage, storage_errors, storage_path
from knowgap.compiling.study.trials import FINGERPRINT, INITIAL, LEFT_OUT, SPENT, is_sealed
from knowgap.errors import StudyError
from knowgap.lms.metering import Usage

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages import BaseStorage

__all__ = [
    "INITIAL",
    "InitialTrial",
    "MadeDemos",
    "SetUp",
    "check_trials",
    "enqueue",
    "read_demos",
    "read_set_up",
    "shared_study",
    "store_demos",
]

_SET_UP, _DEMOS, _DIGEST = "set-up", "demonstrations", "sha256"
_PIECE = 20_000  # characters of an attribute: any database column takes them
_LOCK_SECONDS = 0.5
_SERVER_LOCKS = {
    "postgresql": "SELECT pg_advisory_lock(hashtext(:name))",
    "mysql": "SELECT GET_LOCK(MD5(:name), 8640000)",
    "mariadb": "SELECT GET_LOCK(MD5(:name), 8640000)",
}


class InitialTrial(BaseModel, extra="forbid"):
    """A trial that is run before any is drawn.

    Attributes:
        label: why it is tried: "paper", "current", "given", "calibrated" or "bootstrapped".
        program: the program's name.
        parameters: Optuna's parameters by name.
    """

    label: str
    program: str = ""
    parameters: dict[str, Any]


class MadeDemos(BaseModel, extra="forbid"):
    """The demonstration sets of a program.

    Attributes:
        pool: the sets to choose from.
        spent: what bootstrapping them cost.
    """

    pool: DemoSets = DemoSets()
    spent: Usage = Usage()


class SetUp(BaseModel, extra="forbid"):
    """What all processes of a study start from.

    Attributes:
        initial: the initial trials, in their order.
        known: by program, hyperparameters to be tried besides the defaults and the program's own: ranges are widened to
            hold them.
        demos: by program, the demonstration sets; those of several programs are made when they are first needed.
    """

    initial: list[InitialTrial]
    known: dict[str, list[dict[str, Any]]]
    demos: dict[str, MadeDemos]

    @property
    def spent(self) -> Usage:
        """What bootstrapping demonstrations has cost so far."""
        return sum((made.spent for made in self.demos.values()), Usage())


@contextmanager
def shared_study(
    study_name: str,
    storage: str | Path | None,
    *,
    config: StudyConfig,
    fingerprint: dict[str, Any],
    make: Callable[[], SetUp],
) -> Iterator[tuple[Study, SetUp]]:
    """Open a study, set it up by `make` if nobody has, and let this process work on it.

    Args:
        study_name: the study's name in the storage.
        storage: see `knowgap.compiling.study.storage.open_storage`.
        config: how the study searches.
        fingerprint: what the study is about, as JSON values by name.
        make: bootstraps the demonstrations and lists the initial trials.

    Raises:
        StudyError: the storage cannot be opened, or its study of that name is about something else.
    """
    opened = open_storage(storage, heartbeat=config.heartbeat)
    try:
        with storage_errors(storage, reading=True):
            study = _open_study(study_name, opened, describe_storage(storage), config)

        def start() -> None:
            _check_fingerprint(study, fingerprint)
            if _SET_UP not in study.user_attrs:
                study.set_user_attr(FINGERPRINT, fingerprint)
                _store_pieces(study, _SET_UP, fingerprint, make().model_dump(mode="json"))
            with storage_errors(storage, reading=True):
                set_up = read_set_up(study)
                check_trials(study, set_up.initial)
            _enqueue_initial_trials(study, set_up.initial)

        path = storage_path(storage)
        with (
            storage_errors(storage),
            _working_on_file(study, path, start) if path else _working_on_server(study, opened, start),
        ):
            _check_fingerprint(study, fingerprint)
            yield study, read_set_up(study)
    finally:
        close_storage(opened)


def enqueue(study: Study, number: int, trial: InitialTrial) -> None:
    """Put an initial trial into the queue of the study."""
    study.enqueue_trial(trial.parameters, user_attrs={INITIAL: number})


def read_set_up(study: Study) -> SetUp:
    """The set-up as it is stored in a study, with the demonstrations that trials have made since.

    Raises:
        KeyError: the study is not set up.
        ValueError: it was set up by something else.
        StudyError: it was altered since.
    """
    about = study.user_attrs[FINGERPRINT]
    stored = json.loads(_read_pieces(study, _SET_UP, about))
    if "pool" in stored:  # by an earlier version, for one program
        name = about["program"][0]
        demos = {name: {"pool": stored.pop("pool"), "spent": stored.pop("spent")}}
        stored |= {"known": {name: stored["known"]}, "demos": demos}
        stored["initial"] = [{**trial, "program": name} for trial in stored["initial"]]
    set_up = SetUp.model_validate(stored)
    for name in {trial.program for trial in set_up.initial} - set_up.demos.keys():
        if (made := read_demos(study, name)) is not None:
            set_up.demos[name] = made
    return set_up


def store_demos(study: Study, program: str, made: MadeDemos) -> None:
    """Keep the demonstration sets of a program for all processes."""
    _store_pieces(study, f"{_DEMOS}.{program}", program, made.model_dump(mode="json"))


def read_demos(study: Study, program: str) -> MadeDemos | None:
    """The demonstration sets that a trial has stored for a program; None if none has yet.

    Raises:
        StudyError: they were altered since.
    """
    name = f"{_DEMOS}.{program}"
    if name not in study.user_attrs:
        return None
    return MadeDemos.model_validate_json(_read_pieces(study, name, program))


def _store_pieces(study: Study, name: str, about: Any, value: dict[str, Any]) -> None:
    """Store a JSON value in pieces, and last of all their number: by then the value is complete."""
    text = json.dumps(value)
    study.set_user_attr(_digest_name(name), digest([about, text]))
    pieces = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
    for number, piece in enumerate(pieces):
        study.set_user_attr(f"{name}.{number}", piece)
    study.set_user_attr(name, len(pieces))


def _read_pieces(study: Study, name: str, about: Any) -> str:
    attributes = study.user_attrs
    text = "".join(attributes[f"{name}.{n}"] for n in range(attributes[name]))
    expected = digest([about, text])
    if attributes.get(_digest_name(name), expected) != expected:
        raise StudyError(f"study {study.study_name!r} is damaged: its set-up was altered; take another study name")
    return text


def _digest_name(name: str) -> str:
    return _DIGEST if name == _SET_UP else f"{name}.{_DIGEST}"


def check_trials(study: Study, initial: list[InitialTrial]) -> None:
    """Refuse a study whose trials were altered; studies of earlier versions cannot be checked.

    Raises:
        StudyError: a finished trial is not as when it ended, a waiting one not as when it was enqueued, or one is gone.
    """
    if _DIGEST not in study.user_attrs:
        return
    for place, trial in enumerate(study.get_trials(deepcopy=False)):
        Usage.model_validate(trial.user_attrs.get(SPENT, {}))
        number, fixed = trial.user_attrs.get(INITIAL), trial.system_attrs.get("fixed_params")
        if trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
            sound = is_sealed(trial)
        elif trial.state == TrialState.WAITING:
            sound = number is None or "failed_trial" in trial.system_attrs or fixed == initial[number].parameters
        else:
            sound = True
        if not sound or trial.number != place:
            raise StudyError(
                f"study {study.study_name!r} is damaged: trial {trial.number} was altered; take another study name"
            )


def _open_study(name: str, opened: BaseStorage, shown: str, config: StudyConfig) -> Study:
    import optuna
    from optuna.study import StudyDirection

    directions = [StudyDirection.MAXIMIZE]
    if config.mode == "pareto":
        directions.append(StudyDirection.MINIMIZE)
    study = optuna.create_study(storage=opened, study_name=name, directions=directions, load_if_exists=True)
    foreign = study.get_trials(deepcopy=False) and FINGERPRINT not in study.user_attrs
    if foreign or study.directions != directions:
        raise StudyError(f"study {name!r} in {shown} was made otherwise: take another study name")
    if config.mode == "pareto" and not study.metric_names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names(["score", config.cost])
    return study


@contextmanager
def _working_on_file(study: Study, path: Path, start: Callable[[], None]) -> Iterator[None]:
    """Start alone if no other process works on the study; then work on it together with others."""
    from filelock import ReadWriteLock, Timeout

    lock = ReadWriteLock(path.with_name(f"{path.name}.{digest(study.study_name)[:8]}.workers"), is_singleton=False)
    try:
        while True:
            try:
                alone = lock.acquire_write(timeout=_LOCK_SECONDS)
            except Timeout:
                pass  # others are at work
            else:
                with alone:
                    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
                        study.tell(trial.number, state=TrialState.FAIL)
                    start()
            try:
                together = lock.acquire_read(timeout=_LOCK_SECONDS)
            except Timeout:
                continue  # another process starts alone
            with together:
                if _SET_UP in study.user_attrs:  # else that process died
                    yield
                    return
    finally:
        lock.close()


@contextmanager
def _working_on_server(study: Study, opened: BaseStorage, start: Callable[[], None]) -> Iterator[None]:
    """Start under the server's lock, if there is a server; then work on the study together with others."""
    engine = getattr(opened, "engine", None)
    statement = _SERVER_LOCKS.get(engine.dialect.name) if engine is not None else None
    if engine is None or statement is None:
        start()
    else:
        from sqlalchemy import text

        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.detach()  # so that it is closed, and the lock released, whatever happens
            connection.execute(text(statement), {"name": f"knowgap {study.study_name}"})
            start()
    yield


def _enqueue_initial_trials(study: Study, initial: list[InitialTrial]) -> None:
    """Enqueue the initial trials of which there is none but failed ones, and that were not left out.

    Optuna's own `skip_if_exists` does not serve: to it, a failed trial exists.
    """
    trials = study.get_trials(deepcopy=False)
    present = {t.user_attrs.get(INITIAL) for t in trials if t.state != TrialState.FAIL or LEFT_OUT in t.user_attrs}
    for number, trial in enumerate(initial):
        if number not in present:
            enqueue(study, number, trial)


def _check_fingerprint(study: Study, fingerprint: dict[str, Any]) -> None:
    stored = study.user_attrs.get(FINGERPRINT, fingerprint)
    differing = sorted(key for key in {*stored, *fingerprint} if stored.get(key) != fingerprint.get(key))
    if differing:
        raise StudyError(
            f"study {study.study_name!r} is about something else (it differs in: {', '.join(differing)}): "
            "take another study name (--study-name)"
        )
