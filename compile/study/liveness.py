"""Which processes work on a study, and which of them are dead."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import warnings
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optuna.trial import TrialState

if TYPE_CHECKING:
    from optuna import Study

__all__ = ["WORKER", "alive", "bury_dead_trials", "this_worker"]

WORKER = "worker"
"""The trial attribute that names the process a trial runs in."""

_UNNAMED_SECONDS = 60.0
"""How long a trial may run before it names its process."""


def this_worker() -> dict[str, Any]:
    """This process, as trials name it."""
    return {"host": _host(), "pid": os.getpid(), "began": _began(os.getpid())}


def alive(worker: dict[str, Any]) -> bool | None:
    """Whether a process still runs; None where it is on another machine, of which this one cannot tell."""
    if worker.get("host") != _host():
        return None
    pid = int(worker["pid"])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _began(pid) == worker.get("began")


def bury_dead_trials(study: Study, *, one_machine: bool) -> list[int]:
    """Fail the trials whose process is gone, so that others take their place.

    Processes of this machine are looked up. Those of other machines are left to the heartbeats of the database
    server; in a file, which serves one machine, they are left over from before it was moved.

    Args:
        study: the study.
        one_machine: whether it is kept in a file.

    Returns:
        The numbers of the trials that were found dead here.
    """
    from optuna.exceptions import ExperimentalWarning, UpdateFinishedTrialError
    from optuna.storages import fail_stale_trials

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        fail_stale_trials(study)  # does nothing where there are no heartbeats
    buried: list[int] = []
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        worker = trial.user_attrs.get(WORKER)
        if worker is None:
            began = trial.datetime_start
            dead = began is not None and (datetime.now() - began).total_seconds() > _UNNAMED_SECONDS
        else:
            living = alive(worker)
            dead = one_machine if living is None else not living
        if dead:
            with contextlib.suppress(UpdateFinishedTrialError):  # another worker was faster
                study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
                buried.append(trial.number)
    return buried


@functools.cache
def _host() -> str:
    """The machine, its boot and its process namespace: a process number means something within these alone."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8])
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def _began(pid: int) -> str:
    """When a process began, in the kernel's ticks: process numbers are used again, these pairs are not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "zombie" if fields[0] == "Z" else fields[19]
