"""Artifacts of programs from outside: which modules are imported for them, and when."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from knowgap.compiling import load, save
from knowgap.errors import ArtifactError
from knowgap.programs import get_program
from knowgap.programs.baselines.rag import RAG


@pytest.fixture
def artifact(folder: Path) -> Path:
    """A saved `mine:Again`; its module is forgotten."""
    place = save(get_program("mine:Again")(top_k=9), folder / "artifact", lm="test/scripted")
    del sys.modules["mine"]
    return place


def opened(artifact: Path, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(artifact, **options)


def test_an_artifact_alone_imports_no_module(artifact, folder):
    (folder / "mine.py").write_text("raise SystemExit('it ran')\n")
    with pytest.raises(ArtifactError, match=r"holds the program mine:Again.* as well: --program mine:Again:FOLDER"):
        opened(artifact)
    assert "mine" not in sys.modules


def test_an_artifact_is_loaded_where_its_program_is_named_or_imported(artifact):
    assert opened(artifact, expect="mine:Again").top_k == 9
    assert opened(artifact).top_k == 9  # the module is imported now
    assert opened(artifact, expect=get_program("mine:Again")).top_k == 9
    with pytest.raises(ArtifactError, match="holds the program 'mine:Again', not 'rag'"):
        opened(artifact, expect=RAG)


@pytest.mark.parametrize("named", ["mine:half", "mine:Finder"])
def test_an_artifact_makes_nothing_but_programs(named, artifact, folder):
    config = (artifact / "config.json").read_text()
    (artifact / "config.json").write_text(config.replace("mine:Again", named))
    with pytest.raises(ArtifactError):
        opened(artifact, expect=named)


def test_another_version_of_the_module_is_warned_of(artifact, folder):
    with (folder / "mine.py").open("a") as file:
        file.write("# changed\n")
    with pytest.warns(UserWarning, match="was compiled with another file of the program"):
        load(artifact, expect="mine:Again")


def test_a_class_of_the_script_that_runs_is_not_saved(folder):
    script = (
        folder / "mine.py"
    ).read_text() + f"\nknowgap.save(Again(), {str(folder / 'artifact')!r}, lm='test/scripted')\n"
    (folder / "script.py").write_text(script)
    run = subprocess.run([sys.executable, str(folder / "script.py")], capture_output=True, text=True, check=False)
    assert "Again could not be loaded again" in run.stderr
    assert not (folder / "artifact").exists()
