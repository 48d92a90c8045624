"""An experiment that is spread over Ray: a worker dies, and nothing is lost or counted twice."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

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


@pytest.mark.skipif(not INSTALLED, reason="left out because Ray is not installed: pip install 'knowgap[ray]'")
@pytest.mark.long
def test_a_killed_worker_loses_nothing(tmp_path: Path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, __file__, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, timeout=240, check=False, env=environment)
    assert run.returncode == 0, run.stderr.decode()[-3000:]
    results = json.loads(run.stdout.decode().splitlines()[-1])
    assert (tmp_path / "tombstone").exists()
    lines = [json.loads(line) for line in (tmp_path / "asked.jsonl").read_text(encoding="utf-8").splitlines()]
    elsewhere = [(pid, house) for pid, house in lines if pid != results["driver"]]
    assert len({pid for pid, _ in elsewhere}) >= 2
    assert Counter(house for _, house in elsewhere) == Counter("01234567") + Counter("3")
    (answers,) = (tmp_path / "out" / "answers").glob("*.jsonl")
    ids = [json.loads(line)["id"] for line in answers.read_text(encoding="utf-8").splitlines()[1:]]
    assert sorted(ids) == [f"q{n}" for n in range(8)]
    assert (results["questions"], results["failed"], results["calls"], results["same"]) == (8, 0, [8, 0], True)


def test_without_ray_the_way_to_get_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependency, match=r"knowgap\[ray\]"):
        run_experiment("sample", output=tmp_path, lm=extractive_lm(), rows=["direct"], limit=1, ray_address="local")


def main(folder: Path) -> None:
    """Run a small table on a local Ray with two workers, one of which dies in the middle of a question."""
    import ray
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    cloudpickle.register_pickle_by_value(experiment_helpers)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    lm = dspy.LM("test/rule", engine=MortalEngine(str(folder)), cache=False, num_retries=0)
    table = experiment_helpers.make_table(rows=[{"label": "retrieval", "program": "rag"}], baseline="")
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


if __name__ == "__main__":
    main(Path(sys.argv[1]))
