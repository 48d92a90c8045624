"""Every command, option and extra that a message or a help text names exists as it stands there."""

import ast
import functools
import re
import shlex
from typing import Any

import typer

from knowgap.cli.main import app
from tests.app.test_house import SOURCES

GROUP: Any = typer.main.get_command(app)
PARAMETERS = [each for command in GROUP.commands.values() for each in command.params]
OPTIONS = {name for each in PARAMETERS for name in (*each.opts, *each.secondary_opts)}
OPTIONS |= {"--debug", "--version", "--help"}
ELSEWHERE = {"--force-reinstall", "--no-deps", "--parts"}  # of pip and of the benchmarks


@functools.cache
def texts() -> list[str]:
    """The texts in all files; what is filled in stands as VALUE."""
    found = []
    for node in (node for file in SOURCES for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))):
        if isinstance(node, ast.JoinedStr):
            found.append("".join(str(v.value) if isinstance(v, ast.Constant) else "VALUE" for v in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return found


def hints(pattern: str) -> set[str]:
    return {hint for text in texts() for hint in re.findall(pattern, text)}


def test_a_command_that_is_named_can_be_copied():
    """A hint with arguments parses whole; one without names a command."""
    named = hints(r"`knowgap ([^`]+)`")
    assert len(named) > 10
    for name, *words in map(shlex.split, named):
        assert name in GROUP.commands
        words += ["--output", "new"] if (name, len(words)) == ("train", 1) else []
        if words:
            GROUP.commands[name].make_context(name, words)


def test_an_option_that_is_named_exists():
    named = hints(r"(?<![\w\-])--[a-z][a-z-]*\w")
    assert len(named) > 30
    assert named - OPTIONS <= ELSEWHERE
    assert not any("[" in (parameter.help or "") for parameter in PARAMETERS)  # it would be taken for markup
