"""Two processes on one study, each killed twice: what is finished stays, and every trial is run once."""

import signal

import optuna
import pytest
from compile_worker import work
from processes import PROCESSES

from knowgap.compiling.study.result import FINISHED
from knowgap.compiling.study.storage import open_storage

TRIALS = 12


def trials_of(storage):
    with open_storage(storage) as opened:
        try:
            return optuna.load_study(study_name="tunable", storage=opened).trials
        except KeyError:
            return []


def start(storage, deadline):
    worker = PROCESSES.Process(target=work, args=(storage, TRIALS, deadline))
    worker.start()
    return worker


@pytest.mark.long
def test_two_processes_killed_twice_each_run_every_trial_once(tmp_path):
    storage, seen = str(tmp_path / "study.db"), {}
    for deadline in (1.0, 1.7):
        workers = [start(storage, deadline), start(storage, deadline + 0.3)]
        for worker in workers:
            worker.join(100)
        assert [worker.exitcode for worker in workers] == [-signal.SIGKILL] * 2
        now = {trial.number: trial.values for trial in trials_of(storage) if trial.state in FINISHED}
        assert {number: now.get(number) for number in seen} == seen
        seen = now
    workers = [start(storage, 0.0), start(storage, 0.0)]
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    trials = trials_of(storage)
    finished = [trial for trial in trials if trial.state in FINISHED]
    assert {number: trials[number].values for number in seen} == seen
    assert TRIALS <= len(finished) <= TRIALS + 1  # when there are enough, the other may still finish one
    assert [trial.user_attrs.get("label") for trial in finished].count("default") == 1
    again = [trial.system_attrs["failed_trial"] for trial in finished if "failed_trial" in trial.system_attrs]
    assert len(again) == len({*again})
