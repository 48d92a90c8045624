"""Three processes on one study, each killed twice: what is finished stays, every trial is run once, all end alike."""

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
    """The exit codes of processes that work at the same time; each writes into a file what it has chosen."""
    workers = [
        PROCESSES.Process(target=work, args=(storage, TRIALS, deadline, f"{storage}.{place}"))
        for place, deadline in enumerate(deadlines)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(600)
    return [worker.exitcode for worker in workers]


@pytest.mark.long
def test_three_processes_killed_twice_each_run_every_trial_once_and_choose_the_same(tmp_path):
    storage, seen = str(tmp_path / "study.db"), {}
    for deadline in (1.0, 1.7):
        assert exits(storage, deadline, deadline + 0.3, deadline + 0.5) == [-signal.SIGKILL] * 3
        now = {trial.number: trial.values for trial in trials_of(storage) if trial.state in FINISHED}
        assert {number: now.get(number) for number in seen} == seen
        seen = now
    assert exits(storage, 0.0, 0.0, 0.0) == [0, 0, 0]
    assert len({path.read_text() for path in tmp_path.glob("study.db.[012]")}) == 1
    trials = trials_of(storage)
    finished = [trial for trial in trials if trial.state in FINISHED]
    assert {number: trials[number].values for number in seen} == seen
    assert TRIALS <= len(finished) <= TRIALS + 1  # two may begin one at the same moment
    assert all(trial.state.is_finished() for trial in trials)
    assert [trial.user_attrs.get("label") for trial in finished].count("default") <= 1
    again = [trial.system_attrs["failed_trial"] for trial in finished if "failed_trial" in trial.system_attrs]
    assert len(again) == len({*again})
