"""The house: folders, packages and what importing them loads."""

from __future__ import annotations

import ast
import py_compile
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


MAPPED = PROJECT["tool"]["setuptools"]["package-dir"]
SOURCES = sorted(
    file
    for floor in {folder.split("/")[0] for folder in MAPPED.values()}
    for file in (ROOT / floor).rglob("*.py")
    if "__pycache__" not in file.parts
)
EVERYTHING = [*SOURCES, *sorted(file for room in ("tests", "benchmarks") for file in (ROOT / room).rglob("*.py"))]
COLLECTIONS = {"programs/baselines", "compile/evaluation/metrics"}  # one file for each of many things of a kind


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_every_folder_with_modules_is_mapped_and_every_mapped_folder_exists():
    assert sorted(PROJECT["tool"]["setuptools"]["packages"]) == sorted(MAPPED)
    assert {place(file.parent) for file in SOURCES} == set(MAPPED.values())


def test_a_folder_has_at_most_twelve_modules():
    modules = Counter(place(file.parent) for file in SOURCES if file.name != "__init__.py")
    assert {folder for folder, count in modules.items() if count > 12} <= COLLECTIONS


def test_a_file_has_at_most_350_lines():
    assert [place(file) for file in EVERYTHING if len(file.read_text(encoding="utf-8").splitlines()) > 350] == []


def test_a_function_has_at_most_60_lines_besides_its_docstring():
    long = []
    for file in EVERYTHING:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                docstring = (ast.get_docstring(node, clean=False) or "").count("\n") + 1
                if node.end_lineno - node.lineno + 1 - docstring > 60:
                    long.append(f"{place(file)}: {node.name}")
    assert long == []


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
        "import knowgap.compiling",
        "from knowgap.lms import HFEngine, extractive_lm",
    ],
)
def test_importing_stays_light(statement: str):
    heavy = ("torch", "transformers", "colbert", "optuna")
    check = f"{statement}; import sys; print(*(m for m in {heavy} if m in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []


@pytest.mark.parametrize("name", ["", ".compile", ".lms", ".retrieval"])
def test_every_public_name_resolves(name: str):
    package = import_module(f"knowgap{name}")
    assert len(package.__all__) > 5
    assert dir(package) == package.__all__ == sorted(package.__all__)
    for exported in package.__all__:
        thing = getattr(package, exported)
        assert exported in ("load", "save", getattr(thing, "__name__", exported))
    with pytest.raises(AttributeError, match=f"'knowgap{name}' has no attribute 'nonsense'"):
        package.nonsense  # noqa: B018 - raises


def test_a_package_without_sources_is_named(tmp_path: Path):
    source = "from knowgap.lazy import export_lazily\n__all__, __getattr__, __dir__ = export_lazily(__name__)\n"
    (tmp_path / "sourceless.py").write_text(source)
    py_compile.compile(str(tmp_path / "sourceless.py"), cfile=str(tmp_path / "sourceless.pyc"))
    (tmp_path / "sourceless.py").unlink()
    run = subprocess.run([sys.executable, "-c", "import sourceless"], capture_output=True, text=True, cwd=tmp_path)
    assert "ImportError: sourceless needs its sources" in run.stderr
