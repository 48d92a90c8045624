"""Several processes on one study, killed at random moments: what is finished stays, and the study ends as asked."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import optuna
import pytest
from compile_worker import study as run_study
from compile_worker import study_arguments, work
from processes import PROCESSES

from knowgap.compiling import StudyConfig
from knowgap.compiling.study.storage import open_storage
from knowgap.compiling.study.trials import finished
from knowgap.errors import MissingDependency, StudyError

KILLS, WORKERS, TRIALS = 10, 3, 12


@contextmanager
def opened(storage: str, name: str):
    with open_storage(storage) as place:
        yield optuna.load_study(study_name=name, storage=place)


def results(storage: str):
    try:
        with opened(storage, "many") as study:
            return {trial.number: (trial.label, trial.score, trial.scores) for trial in finished(study)}
    except KeyError:
        return {}


def survive(storage: str, seed: int) -> None:
    """Kill one, two or three of three workers at random moments, and the others soon after, until ten are dead."""
    rng = random.Random(seed)
    kills, seen = 0, {}
    while kills < KILLS and len(seen) < TRIALS - 1:
        deadlines = [rng.uniform(0.1, 0.8) if n < rng.randint(1, WORKERS) else 0.0 for n in range(WORKERS)]
        workers = [PROCESSES.Process(target=work, args=(storage, TRIALS, deadline)) for deadline in deadlines]
        for worker in workers:
            worker.start()
        for worker, deadline in sorted(zip(workers, deadlines, strict=True), key=lambda pair: not pair[1]):
            if not deadline:
                worker.kill()
            worker.join()
            kills += worker.exitcode == -signal.SIGKILL
        now = results(storage)
        assert {number: now.get(number) for number in seen} == seen
        seen = now
    last = [PROCESSES.Process(target=work, args=(storage, TRIALS, 0.0)) for _ in range(WORKERS)]
    for worker in last:
        worker.start()
    for worker in last:
        worker.join(100)
    assert [worker.exitcode for worker in last] == [0] * WORKERS
    now = results(storage)
    assert {number: now.get(number) for number in seen} == seen
    # When enough are finished, each worker may still finish one, and may run the two initial ones that died running.
    assert TRIALS <= len(now) < TRIALS + 3 * WORKERS
    assert {label for label, *_ in now.values()} == {"default", "bootstrapped", "sampled"}


@pytest.mark.parametrize("suffix", [pytest.param("db", marks=pytest.mark.long), "journal"])
def test_ten_kills_on_one_machine(tmp_path, suffix):
    survive(str(tmp_path / f"study.{suffix}"), seed=1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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
    port = free_port()
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
    port = free_port()
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


@pytest.mark.long
@pytest.mark.parametrize("server", ["postgres", "mariadb"])
def test_ten_kills_on_a_database_server(server, request):
    survive(request.getfixturevalue(server), seed=2)


@pytest.mark.parametrize("server", [False, True])
def test_a_process_that_falls_silent_is_replaced(tmp_path, request, server):
    """Its trial is failed once it missed its heartbeats, and run again with the same settings."""
    storage = request.getfixturevalue("postgres") if server else f"sqlite:///{tmp_path}/study.db"
    common = {**study_arguments()[0], "study_name": "silent", "storage": storage}
    common["config"] = StudyConfig(reuse=False, heartbeat=1)
    run_study(n_trials=2, **common)
    with opened(storage, "silent") as study:
        silent = []

        def fall_silent(*progress):
            """While this process is at work, start a trial of another one, with one heartbeat: its last."""
            if not silent:
                with pytest.warns(UserWarning, match="Heartbeat"):
                    silent.append(study.ask())
                silent[0].suggest_categorical("careful", [False, True])
                study._storage.record_heartbeat(silent[0]._trial_id)
            elif progress[2].startswith("trial 4"):
                time.sleep(1.2)  # so that there is time to miss it

        tuning = run_study(n_trials=5, progress=fall_silent, **common)
        again = next(t for t in study.trials if t.system_attrs.get("failed_trial") == silent[0].number)
        assert study.trials[silent[0].number].state.name == "FAIL"
        assert again.params["careful"] == silent[0].params["careful"]
        assert again.number in [trial.number for trial in tuning.trials]


def test_the_next_start_fails_what_a_dead_process_left_running_in_a_journal(tmp_path):
    storage = tmp_path / "study.journal"
    common = {**study_arguments()[0], "storage": storage, "study_name": "left"}
    run_study(n_trials=1, **common)  # the defaults; the bootstrapped demonstrations wait
    with opened(str(storage), "left") as study:
        left = [study.ask(), study.ask()]
        tuning = run_study(n_trials=3, **common)
        assert [study.trials[trial.number].state.name for trial in left] == ["FAIL", "FAIL"]
        assert [trial.label for trial in tuning.trials] == ["default", "bootstrapped", "sampled"]


def test_two_studies_in_one_file_do_not_wait_for_each_other(tmp_path):
    common = {**study_arguments()[0], "storage": tmp_path / "studies.db"}
    others = []

    def start_another(*progress):
        if not others:
            others.append(None)
            others[0] = run_study(n_trials=1, study_name="another", **common)

    run_study(n_trials=1, study_name="one", progress=start_another, **common)
    assert len(others[0].trials) == 1


def test_a_start_beside_a_working_process_fails_none_of_its_trials(tmp_path):
    """It runs the defaults too if it would end without them."""
    common = {**study_arguments()[0], "storage": tmp_path / "study.journal", "study_name": "beside"}
    second = []

    def start_another(*progress):
        if not second:
            second.append(None)  # below is this call again
            second[0] = run_study(n_trials=1, **common)

    first = run_study(n_trials=4, progress=lambda *p: "(default)" in p[2] and start_another(), **common)
    assert [trial.label for trial in second[0].trials] == ["bootstrapped", "default"]
    assert [trial.label for trial in first.trials] == ["default", "bootstrapped", "default", "sampled"]
    assert [trial.number for trial in first.trials] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("postgresql://me:secret@127.0.0.1:{port}/x", StudyError, r"postgresql://127.0.0.1:\d+/x cannot be opened"),
        ("mysql://me:secret@127.0.0.1/x", MissingDependency, "mysql://127.0.0.1/x needs a database driver: .* pymysql"),
        ("nonsense://somewhere", StudyError, "cannot be opened"),
        ("postgresql://me:secret@here:port/x", StudyError, "cannot be opened"),
    ],
)
def test_servers_that_cannot_be_used(monkeypatch, url, error, message):
    monkeypatch.setitem(sys.modules, "pymysql", None)
    with pytest.raises(error, match=message) as caught, open_storage(url.format(port=free_port())):
        pass
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
