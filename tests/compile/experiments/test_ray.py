"""A run that is spread over Ray: a worker dies, and nothing is lost or counted twice."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from knowgap.compile.experiments.runner import run_experiment
from knowgap.errors import MissingDependency
from knowgap.lms import extractive_lm

INSTALLED = importlib.util.find_spec("ray") is not None


@pytest.mark.skipif(not INSTALLED, reason="left out because Ray is not installed: pip install 'knowgap[ray]'")
def test_a_killed_worker_loses_nothing(tmp_path: Path):
    worker = Path(__file__).parents[2] / "experiment_ray_worker.py"
    run = subprocess.run([sys.executable, str(worker), str(tmp_path)], capture_output=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr.decode()[-3000:]
    found = json.loads(run.stdout.decode().splitlines()[-1])
    assert (tmp_path / "tombstone").exists()
    lines = [json.loads(line) for line in (tmp_path / "asked.jsonl").read_text(encoding="utf-8").splitlines()]
    elsewhere = [(pid, house) for pid, house in lines if pid != found["driver"]]
    assert len({pid for pid, _ in elsewhere}) >= 2
    assert Counter(house for _, house in elsewhere) == Counter("01234567") + Counter("3")
    (answers,) = (tmp_path / "out" / "answers").glob("*.jsonl")
    ids = [json.loads(line)["id"] for line in answers.read_text(encoding="utf-8").splitlines()[1:]]
    assert sorted(ids) == [f"q{n}" for n in range(8)]
    assert (found["questions"], found["failed"], found["calls"], found["same"]) == (8, 0, [8, 0], True)


def test_without_ray_the_way_to_get_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependency, match=r"knowgap\[ray\]"):
        run_experiment("sample", output=tmp_path, lm=extractive_lm(), rows=["direct"], limit=1, ray_address="local")
