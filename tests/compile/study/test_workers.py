"""Many workers on one study, killed at random moments: what was finished stays, and the study ends as asked."""

from __future__ import annotations

import functools
import multiprocessing
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import optuna
import pytest
from compile_worker import study_arguments, work

import knowgap.compile.study.worker as session
from knowgap.compile import tune
from knowgap.compile.study.liveness import WORKER, alive, bury_dead_trials, this_worker
from knowgap.compile.study.storage import close_storage, describe_storage, open_storage
from knowgap.compile.study.trials import CONFIG, finished
from knowgap.errors import MissingDependency, StudyError

KILLS, WORKERS, TRIALS = 10, 3, 12


@pytest.fixture(scope="module")
def processes():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["compile_worker", "knowgap.compile.study.tuning", "knowgap.lms", "optuna.storages._rdb.storage"]
    )
    return context


def results(storage: str):
    place = open_storage(storage)
    try:
        study = optuna.load_study(study_name="many", storage=place)
        return {trial.number: (trial.label, trial.score, trial.scores) for trial in finished(study)}
    except KeyError:
        return {}
    finally:
        close_storage(place)


def survive(processes, storage: str, seed: int) -> None:
    rng = random.Random(seed)
    kills, seen = 0, {}
    while kills < KILLS:
        doomed = rng.randint(1, WORKERS)
        deadlines = [rng.uniform(0.1, 0.8) if n < doomed else 0.0 for n in range(WORKERS)]
        if seen and len(seen) >= TRIALS - 1:
            break
        workers = [processes.Process(target=work, args=(storage, TRIALS, deadline)) for deadline in deadlines]
        for worker in workers:
            worker.start()
        for worker, deadline in zip(workers, deadlines, strict=True):
            if deadline:
                worker.join()
                kills += worker.exitcode == -signal.SIGKILL
        for worker, deadline in zip(workers, deadlines, strict=True):
            if not deadline:
                worker.kill()  # the survivors too, in the middle of what they do
                worker.join()
                kills += 1
        now = results(storage)
        assert {number: now.get(number) for number in seen} == seen  # whatever was finished is still there
        seen = now
    last = [processes.Process(target=work, args=(storage, TRIALS, 0.0)) for _ in range(WORKERS)]
    for worker in last:
        worker.start()
    for worker in last:
        worker.join(100)
    assert [worker.exitcode for worker in last] == [0] * WORKERS
    now = results(storage)
    assert {number: now.get(number) for number in seen} == seen
    assert len(now) == TRIALS
    place = open_storage(storage)
    study = optuna.load_study(study_name="many", storage=place)
    states = {trial.state.name for trial in study.trials}
    assert states <= {"COMPLETE", "PRUNED", "FAIL", "WAITING"}
    done = finished(study)
    planned = [trial.label for trial in done if trial.label != "sampled"]
    assert sorted(planned) == ["bootstrapped", "paper"]
    keys = [study.trials[trial.number].user_attrs[CONFIG]["key"] for trial in done if trial.same_as is None]
    assert len({*keys}) == len(keys)
    close_storage(place)


@pytest.mark.parametrize("suffix", ["db", "journal"])
def test_ten_kills_on_one_machine(processes, tmp_path, suffix):
    survive(processes, str(tmp_path / f"study.{suffix}"), seed=1)


@pytest.fixture(scope="module")
def postgres():
    """A PostgreSQL server of the test's own, on loopback."""
    found = shutil.which("initdb") or next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))), None)
    if found is None:
        pytest.skip("PostgreSQL is not installed here: studies on a database server were not tried")
    binaries = Path(found).resolve().parent
    folder = Path(tempfile.mkdtemp(prefix="knowgap-postgres-"))
    user = {"user": "nobody"} if os.getuid() == 0 else {}  # PostgreSQL does not run as root
    if user:
        shutil.chown(folder, "nobody")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data, quiet = folder / "data", {"check": True, "capture_output": True, "cwd": folder, **user}
    subprocess.run([binaries / "initdb", "-D", data, "-U", "knowgap", "-A", "trust", "--no-sync"], **quiet)
    options = f"-F -p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
    control = [binaries / "pg_ctl", "-D", data, "-w", "-l", folder / "log"]
    subprocess.run([*control, "-o", options, "start"], **{**quiet, "capture_output": False})
    yield f"postgresql://knowgap:a-password@127.0.0.1:{port}/postgres"
    subprocess.run([*control, "-m", "immediate", "stop"], **quiet)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def mariadb():
    """A MariaDB server of the test's own, on loopback: it speaks MySQL's protocol."""
    import pymysql

    names = ("mariadb-install-db", "mariadbd", "my_print_defaults")
    programs = [shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in names]
    if None in programs:
        pytest.skip("MariaDB is not installed here: studies on a MySQL server were not tried")
    install, server, _ = programs
    folder = Path(tempfile.mkdtemp(prefix="knowgap-mariadb-"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    user = ["--user=nobody"] if os.getuid() == 0 else []
    if user:
        shutil.chown(folder, "nobody")
    data = ["--no-defaults", *user, f"--datadir={folder / 'data'}"]
    subprocess.run(
        [install, *data, "--auth-root-authentication-method=normal", "--skip-test-db"], check=True, capture_output=True
    )
    door = folder / "socket"
    options = [f"--socket={door}", f"--port={port}", "--bind-address=127.0.0.1", "--innodb-flush-log-at-trx-commit=0"]
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen([server, *data, *options], stdout=log, stderr=log)
    for _ in range(600):
        if running.poll() is not None:
            raise RuntimeError((folder / "log").read_text(errors="replace"))
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    with pymysql.connect(unix_socket=str(door), user="root") as root, root.cursor() as cursor:
        cursor.execute("CREATE DATABASE studies")
        cursor.execute("GRANT ALL ON studies.* TO 'knowgap'@'127.0.0.1' IDENTIFIED BY 'a-password'")
    yield f"mysql://knowgap:a-password@127.0.0.1:{port}/studies"
    running.kill()
    running.wait()
    shutil.rmtree(folder)


@pytest.mark.parametrize("server", ["postgres", "mariadb"])
def test_ten_kills_on_a_database_server(processes, server, request):
    survive(processes, request.getfixturevalue(server), seed=2)


def test_a_worker_of_another_machine_that_falls_silent_is_replaced(postgres):
    arguments, _ = study_arguments()
    program = arguments.pop("program")
    common = {**arguments, "study_name": "silent", "storage": postgres, "heartbeat": 1}
    tune(program, n_trials=1, **common)
    place = open_storage(postgres, heartbeat=1)
    study = optuna.load_study(study_name="silent", storage=place)
    with pytest.warns(UserWarning, match="Heartbeat"):
        ghost = study.ask()
    ghost.set_user_attr("worker", {**this_worker(), "host": "elsewhere"})
    place.record_heartbeat(ghost._trial_id)  # the last one
    found = tune(program, n_trials=2, **common)  # the ghost holds the second place until it is given up
    assert len(found.trials) == 2
    assert study.trials[ghost.number].state.name == "FAIL"
    close_storage(place)


def test_a_server_that_does_not_answer():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(StudyError, match=r"postgresql://me:\*\*\*@127.0.0.1:\d+/x cannot be opened") as caught:
        open_storage(f"postgresql://me:secret@127.0.0.1:{port}/x")
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_drivers_are_named(monkeypatch):
    monkeypatch.setattr("knowgap.compile.study.storage.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match="pip install pymysql"):
        open_storage("mysql://me:secret@127.0.0.1/x")
    with pytest.raises(StudyError, match="cannot be opened"):
        open_storage("nonsense://somewhere")
    assert describe_storage("mysql://me:secret@here/x") == "mysql://me:***@here/x"
    assert describe_storage(None) == "memory"


def test_who_is_alive():
    me = this_worker()
    assert alive(me) is True
    assert alive({**me, "began": "long ago"}) is False  # another process has that number now
    assert alive({**me, "host": "elsewhere"}) is None
    child = subprocess.Popen(["true"])
    child.wait()
    assert alive({**me, "pid": child.pid}) is False


def test_trials_of_another_machine_are_left_to_heartbeats():
    study = optuna.create_study()
    trials = [study.ask() for _ in range(3)]
    trials[0].set_user_attr("worker", this_worker())
    trials[1].set_user_attr("worker", {**this_worker(), "host": "elsewhere"})
    assert bury_dead_trials(study, one_machine=False) == []
    assert bury_dead_trials(study, one_machine=True) == [1]
    assert [trial.state.name for trial in study.trials] == ["RUNNING", "FAIL", "RUNNING"]


@pytest.mark.parametrize("settings", ["same", "others"])
def test_a_trial_waits_for_one_that_has_yet_to_say_its_settings(monkeypatch, settings):
    study = optuna.create_study()
    first, second = study.ask(), study.ask()
    first.set_user_attr(WORKER, this_worker())
    moves = [lambda: first.set_user_attr(CONFIG, {"key": settings})]
    if settings == "same":
        moves.append(lambda: study.tell(first, 1.0))
    monkeypatch.setattr(session.time, "sleep", lambda seconds: moves.pop(0)())
    found = session.Session._same(SimpleNamespace(study=study), second, "same")
    assert not moves
    assert (found.number if found else None) == (first.number if settings == "same" else None)


def test_trials_begin_in_the_order_of_their_numbers():
    study = optuna.create_study()
    taken, waiting = study.ask(), optuna.trial.create_trial(state=optuna.trial.TrialState.WAITING)
    study.add_trial(waiting)
    later = study._storage.create_new_trial(study._study_id)  # as where another worker's trial came in between
    later = optuna.trial.Trial(study, later)
    claim = functools.partial(session.Session._claim_place, SimpleNamespace(study=study, n_trials=3))
    claim(taken)
    with pytest.raises(session._Surplus):
        claim(later)
    claim(study.ask())  # the one that waited
    claim(later)
