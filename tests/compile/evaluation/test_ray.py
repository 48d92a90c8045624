"""An experiment that is spread over Ray: a worker dies, or what started it, and nothing is lost or counted twice."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import dspy
import experiment_helpers
import pytest

from knowgap.compiling.experiments.runner import run_experiment
from knowgap.errors import MissingDependency
from knowgap.lms import extractive_lm
from knowgap.lms.embedded.engine import ExtractiveEngine

INSTALLED = importlib.util.find_spec("ray") is not None


class MortalEngine:
    """The embedded reader; writes down who is asked what, and kills the process that is first asked about house q3."""

    def __init__(self, folder: str):
        self.folder = folder

    def complete(self, request):
        house = (request.messages[-1].text or "").partition("house q")[2][:1]
        with Path(self.folder, "asked.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps([os.getpid(), house]) + "\n")
        tombstone = Path(self.folder, "tombstone")
        if house == "3" and not tombstone.exists():
            tombstone.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return ExtractiveEngine().complete(request)


class SlowEngine:
    """The embedded reader, after a second."""

    def complete(self, request):
        time.sleep(1)
        return ExtractiveEngine().complete(request)


needs_ray = pytest.mark.skipif(
    not INSTALLED, reason="left out because Ray is not installed: pip install 'knowgap[ray]'"
)


def start(folder: Path, what: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, __file__, str(folder), what]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


def answered(folder: Path) -> list[str]:
    """The ids of the questions whose answers are on disk, in the order in which they came."""
    lines = [line for file in (folder / "out" / "answers").glob("*.jsonl") for line in file.read_bytes().splitlines()]
    return [json.loads(line)["id"] for line in lines[1:] if line.endswith(b"}")]


@needs_ray
@pytest.mark.long
def test_what_started_it_is_killed_and_interrupted_and_goes_on(tmp_path: Path):
    kept: list[str] = []
    for number in (signal.SIGKILL, signal.SIGINT):
        run, until = start(tmp_path, "slow"), time.monotonic() + 500
        while len(answered(tmp_path)) < len(kept) + 2 and run.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
        run.send_signal(number)
        _, errors = run.communicate(timeout=120)
        assert run.returncode not in (0, None), errors.decode()[-3000:]
        assert answered(tmp_path)[: len(kept)] == kept
        kept = answered(tmp_path)
        assert 2 <= len(kept) < 8
    last = start(tmp_path, "slow")
    printed, errors = last.communicate(timeout=500)
    assert last.returncode == 0, errors.decode()[-3000:]
    assert answered(tmp_path)[: len(kept)] == kept
    assert sorted(answered(tmp_path)) == [f"q{n}" for n in range(8)]
    assert json.loads(printed.decode().splitlines()[-1]) == {"questions": 8, "failed": 0, "calls": 8 - len(kept)}


@needs_ray
@pytest.mark.long
def test_a_killed_worker_loses_nothing(tmp_path: Path):
    run = start(tmp_path, "mortal")
    printed, errors = run.communicate(timeout=500)
    assert run.returncode == 0, errors.decode()[-3000:]
    results = json.loads(printed.decode().splitlines()[-1])
    assert (tmp_path / "tombstone").exists()
    lines = [json.loads(line) for line in (tmp_path / "asked.jsonl").read_text(encoding="utf-8").splitlines()]
    elsewhere = [(pid, house) for pid, house in lines if pid != results["driver"]]
    assert len({pid for pid, _ in elsewhere}) >= 2
    assert Counter(house for _, house in elsewhere) == Counter("01234567") + Counter("3")
    assert sorted(answered(tmp_path)) == [f"q{n}" for n in range(8)]
    assert (results["questions"], results["failed"], results["calls"], results["same"]) == (8, 0, [8, 0], True)


def test_without_ray_the_way_to_get_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependency, match=r"knowgap\[ray\]"):
        run_experiment("sample", output=tmp_path, lm=extractive_lm(), rows=["direct"], limit=1, ray_address="local")


def slow(folder: Path) -> None:
    """Run a small table, one second a question, on a local Ray with two workers."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    lm = dspy.LM("test/slow", engine=SlowEngine(), cache=False, num_retries=0)
    options = {"lm": lm, "num_threads": 2, **experiment_helpers.write_data(folder)}
    done = run_experiment(small_table(), output=folder / "out", ray_address="auto", **options)
    results = {"questions": done.cells[0].questions, "failed": done.failed, "calls": done.spent.calls}
    sys.stdout.write(json.dumps(results))


def mortal(folder: Path) -> None:
    """Run a small table on a local Ray with two workers, one of which dies in the middle of a question."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    lm = dspy.LM("test/rule", engine=MortalEngine(str(folder)), cache=False, num_retries=0)
    table = small_table()
    options = {"lm": lm, "num_threads": 2, **experiment_helpers.write_data(folder)}
    first, second = (run_experiment(table, output=folder / "out", ray_address="auto", **options) for _ in range(2))
    ray.shutdown()
    here = run_experiment(table, output=folder / "here", **options)
    results = {
        "questions": first.cells[0].questions,
        "failed": first.failed,
        "calls": [first.spent.calls, second.spent.calls],
        "same": [c.figures for c in first.cells] == [c.figures for c in here.cells],
        "driver": os.getpid(),
    }
    sys.stdout.write(json.dumps(results))


def small_table() -> Any:
    return experiment_helpers.make_table(rows=[{"label": "retrieval", "program": "rag"}], baseline="")


if __name__ == "__main__":
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    cloudpickle.register_pickle_by_value(experiment_helpers)
    {"slow": slow, "mortal": mortal}[sys.argv[2]](Path(sys.argv[1]))
