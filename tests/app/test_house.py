"""The house: folders, packages and what importing them loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib", reason="reading pyproject.toml needs Python 3.11 or later")

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_folder_with_modules_is_mapped_and_every_mapped_folder_exists():
    mapped = PROJECT["tool"]["setuptools"]["package-dir"]
    assert sorted(PROJECT["tool"]["setuptools"]["packages"]) == sorted(mapped)
    parts = {name.split("/")[0] for name in mapped.values()}
    found = {
        file.parent.relative_to(ROOT).as_posix()
        for part in parts
        for file in (ROOT / part).rglob("*.py")
        if "__pycache__" not in file.parts
    }
    assert found == set(mapped.values())


def test_nothing_at_the_root_shadows_a_package():
    assert not list(ROOT.glob("*.py"))
    assert not (ROOT / "datasets").exists()
    assert not (ROOT / "knowgap").exists()


@pytest.mark.parametrize(
    "statement",
    [
        "import knowgap",
        "import knowgap.cli.main",
        "import knowgap.retrieval",
        "import knowgap.compile",
        "import knowgap.lms",
    ],
)
def test_importing_stays_light(statement: str):
    heavy = ("torch", "transformers", "colbert", "optuna")
    check = f"{statement}; import sys; print(*(m for m in {heavy} if m in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []


def test_every_public_name_resolves():
    import knowgap

    for name in knowgap.__all__:
        assert getattr(knowgap, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        getattr(knowgap, "nonsense")  # noqa: B009 - a name that a type checker would refuse
