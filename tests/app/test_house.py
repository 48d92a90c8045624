"""The house: folders, packages, what importing them loads, and by which names they use DSPy."""

import doctest
import re
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import grimp
import pytest

from tests.app.test_requirements import PYPROJECT, ROOT

MAPPED = PYPROJECT["tool"]["setuptools"]["package-dir"]
SOURCES = sorted(
    file
    for floor in {folder.split("/")[0] for folder in MAPPED.values()}
    for file in (ROOT / floor).rglob("*.py")
    if "__pycache__" not in file.parts
)
HIDDEN = re.compile(
    r"(?:from|import) dspy[\w.]*\._\w|from dspy[\w.]* import .*\b_(?!_)\w|\bdspy(?:\.\w+)*\._(?!_)\w"
    r"|\b(?:lm|engine|adapter|predictor|predict|cache|settings)\._(?!_)\w"
    r"|\b(?:GLOBAL_HISTORY|caller_modules|record_history|MAX_HISTORY_SIZE|main_thread_config|thread_local_overrides)\b"
)
"""A private name of DSPy, or one by which it keeps its histories and settings."""


def test_the_sources_use_public_names_of_dspy():
    lines = [line for file in SOURCES for line in file.read_text(encoding="utf-8").splitlines()]
    assert [line for line in lines if HIDDEN.search(line)] == []


def test_every_folder_with_modules_is_mapped_and_every_mapped_folder_exists():
    assert sorted(PYPROJECT["tool"]["setuptools"]["packages"]) == sorted(MAPPED)
    assert {file.parent.relative_to(ROOT).as_posix() for file in SOURCES} == set(MAPPED.values())


def test_no_two_files_import_each_other():
    """Also not by way of others, within functions, or for type checkers alone."""
    graph = grimp.build_graph("knowgap", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError, which names a circle


@pytest.mark.parametrize("name", ["", ".compiling", ".lms", ".retrieval"])
def test_every_public_name_resolves(name: str):
    package = import_module(f"knowgap{name}")
    assert len(package.__all__) > 5
    assert dir(package) == package.__all__ == sorted(package.__all__)
    for exported in package.__all__:
        thing = getattr(package, exported)
        assert getattr(thing, "__name__", exported).rpartition(".")[2] == exported
    absent = "nonsense"
    with pytest.raises(AttributeError, match=absent):
        getattr(package, absent)


def test_the_face_is_small_and_every_name_has_an_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The examples of docstrings run, in order, in one empty folder."""
    import knowgap

    names = [name for name in dir(knowgap) if not name.startswith("_")]
    assert len(names) <= 27
    monkeypatch.chdir(tmp_path)
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    without = []
    for name in names:
        thing = getattr(knowgap, name)
        found = [test for test in finder.find(thing, name, globs={}) if test.examples]
        if not found:
            without.append(name)
        for test in found:
            assert runner.run(test).failed == 0, name
    assert without == []
