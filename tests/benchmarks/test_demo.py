"""The demo: what it prints is what it is for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from knowgap.compiling.evaluation.results import Evaluations

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_the_demo_finds_what_retrieving_once_does_not_and_says_what_is_not_there(tmp_path):
    own = {"KNOWGAP_HOME": str(tmp_path / "home"), "DSPY_CACHEDIR": str(tmp_path / "cache")}
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    command = [str(ROOT / "demo.sh"), str(tmp_path / "demo")]
    done = subprocess.run(command, env={**os.environ, **own, "PATH": path}, capture_output=True, text=True, check=True)
    once, rounds, unanswerable = done.stdout.split("$ knowgap ask")[1:]
    answer = "2,353,418"
    assert answer not in once
    assert answer in rounds
    assert "Your documents do not say this" in unanswerable
    assert done.stdout.rstrip().endswith("Rolvilock")
    test = Evaluations.load(tmp_path / "demo/scores").comparisons()["knowgap"]
    assert test.difference > 0.2
    assert test.p_corrected < 0.01
    artifact = tmp_path / "demo/study/artifact/config.json"
    assert '"knowgap"' in artifact.read_text()
