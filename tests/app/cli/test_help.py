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
