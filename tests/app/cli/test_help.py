"""Help pages: commands in groups, at most 20 options each, every option with --help-all."""

import re

import pytest
import typer

from knowgap.cli.help_pages import MOST
from knowgap.cli.main import _GROUPS, app

COMMANDS = typer.main.get_command(app).commands


def options_on(page: str) -> set[str]:
    """The long names of the options that begin a line of a help page's boxes."""
    return {match[1] for match in re.finditer(r"^│ [* ]?\s*(--[a-z-]+)", page, re.MULTILINE)}


def own_options(name: str) -> set[str]:
    names = {p.opts[0] for p in COMMANDS[name].params if p.param_type_name == "option"} | {"--help"}
    return {each for each in names if each.startswith("--")}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_page_has_at_most_20_options_and_help_all_has_every_one(knowgap, name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    brief = options_on(knowgap(name, "--help")[0])
    assert len(brief) <= MOST == 20
    assert "--help" in brief
    if brief != own_options(name):
        assert "--help-all" in brief
        assert options_on(knowgap(name, "--help-all")[0]) == own_options(name)


def test_commands_stand_in_groups(knowgap):
    page = knowgap("--help")[0]
    places = [page.index(f"─ {title} ─") for title in _GROUPS]
    assert places == sorted(places)
    assert {name for names in _GROUPS.values() for name in names} == {*COMMANDS}


@pytest.mark.parametrize(
    ("command", "option", "default"),
    [
        ("ask", "--program", "knowgap"),
        ("ask", "--style", "sentence; an artifact's own"),
        ("compile", "--hold-out", "a third; 20 of 40 to 59; none of fewer than 40; and training questions besides"),
        ("compile", "--storage", "in the output folder"),
        ("report", "--base", "before, or the first"),
        ("train", "--sub-model", "all three"),
    ],
)
def test_a_help_page_says_what_an_option_without_a_fixed_default_does(knowgap, command, option, default, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    words = "--help-all" if command == "compile" else "--help"
    [line] = [line for line in knowgap(command, words)[0].splitlines() if re.match(rf"│ +{option} ", line)]
    assert f"[default: ({default})]" in line


def test_no_help_text_has_brackets_that_would_be_taken_for_markup():
    helps = [parameter.help or "" for command in COMMANDS.values() for parameter in command.params]
    assert [text for text in helps if "[" in text] == []
