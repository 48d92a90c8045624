"""Every command that a message, a help text or a page names exists as it stands there, with its options."""

from __future__ import annotations

import ast
import functools
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from knowgap.cli.main import app

ROOT = Path(__file__).parents[2]
FLOORS = ("app", "compile", "programs", "retrieval", "lms", "signatures")
SOURCES = sorted(file for floor in FLOORS for file in (ROOT / floor).rglob("*") if file.suffix in (".py", ".jinja"))
GROUP: Any = typer.main.get_command(app)
OPTIONS = {
    name
    for command in GROUP.commands.values()
    for each in command.params
    for name in (*each.opts, *each.secondary_opts)
}
OPTIONS |= {"--debug", "--version", "--help"}
ELSEWHERE = {"--force-reinstall", "--no-deps", "--parts"}  # of pip and of the benchmarks


@functools.cache
def texts(path: Path) -> list[str]:
    """The texts in a file; what is filled in stands as VALUE."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return re.findall(r"`[^`]*`", source)
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            found.append("".join(str(v.value) if isinstance(v, ast.Constant) else "VALUE" for v in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return found


def hints(pattern: str) -> list[tuple[str, str]]:
    places = [(file, text) for file in SOURCES for text in texts(file)]
    return sorted(
        {(file.relative_to(ROOT).as_posix(), hint) for file, text in places for hint in re.findall(pattern, text)}
    )


def test_a_command_that_is_named_can_be_copied():
    """A hint with arguments parses whole; one without names a command."""
    named = hints(r"`knowgap ([^`]+)`")
    assert len(named) > 20
    for place, hint in named:
        name, *words = shlex.split(hint)
        assert name in GROUP.commands, place
        if name == "train" and len(words) == 1:
            words += ["--output", "new"]
        if words:
            try:
                GROUP.commands[name].make_context(name, words)
            except Exception as error:
                raise AssertionError(f"{place}: {hint}") from error


def test_no_help_text_has_brackets_that_would_be_taken_for_markup():
    helps = [parameter.help or "" for command in GROUP.commands.values() for parameter in command.params]
    assert [text for text in helps if "[" in text] == []


def test_an_option_that_is_named_exists():
    named = hints(r"(?<![\w\-])--[a-z][a-z-]*\w")
    assert len(named) > 50
    assert [(place, option) for place, option in named if option not in OPTIONS | ELSEWHERE] == []


def test_an_extra_that_is_named_exists():
    tomllib = pytest.importorskip("tomllib")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = hints(r"pip install 'knowgap\[(\w+)\]'")
    assert named
    assert {extra for _, extra in named} <= {*extras}
