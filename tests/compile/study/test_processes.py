"""Two processes on one study, each killed twice: what is finished stays, and every trial is run once."""

import multiprocessing
import signal

import optuna
import pytest
from compile_helpers import work

from knowgap.compiling.study.result import FINISHED

TRIALS = 12
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["compile_helpers", "knowgap.compiling.study.run", "optuna.storages._rdb.storage"])


def trials_of(storage):
    """What plain Optuna reads of the study, as its dashboard does."""
    try:
        return optuna.load_study(study_name="tunable", storage=f"sqlite:///{storage}").trials
    except KeyError:
        return []


def exits(storage, *deadlines):
    """The exit codes of processes that work at the same time."""
    workers = [PROCESSES.Process(target=work, args=(storage, TRIALS, deadline)) for deadline in deadlines]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(100)
    return [worker.exitcode for worker in workers]


@pytest.mark.long
def test_two_processes_killed_twice_each_run_every_trial_once(tmp_path):
    storage, seen = str(tmp_path / "study.db"), {}
    for deadline in (1.0, 1.7):
        assert exits(storage, deadline, deadline + 0.3) == [-signal.SIGKILL] * 2
        now = {trial.number: trial.values for trial in trials_of(storage) if trial.state in FINISHED}
        assert {number: now.get(number) for number in seen} == seen
        seen = now
    assert exits(storage, 0.0, 0.0) == [0, 0]
    trials = trials_of(storage)
    finished = [trial for trial in trials if trial.state in FINISHED]
    assert {number: trials[number].values for number in seen} == seen
    assert TRIALS <= len(finished) <= TRIALS + 1  # when there are enough, the other may still finish one
    assert [trial.user_attrs.get("label") for trial in finished].count("default") <= 1
    again = [trial.system_attrs["failed_trial"] for trial in finished if "failed_trial" in trial.system_attrs]
    assert len(again) == len({*again})
