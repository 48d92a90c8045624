"""Help pages: commands in groups, and no text that the pages would take for markup."""

from __future__ import annotations

import typer

from knowgap.cli.main import _GROUPS, app

COMMANDS = typer.main.get_command(app).commands


def test_commands_stand_in_groups(knowgap):
    page = knowgap("--help")[0]
    places = [page.index(f"─ {title} ─") for title in _GROUPS]
    assert places == sorted(places)
    assert {name for names in _GROUPS.values() for name in names} == {*COMMANDS}


def test_no_help_text_has_brackets_that_would_be_taken_for_markup():
    helps = [parameter.help or "" for command in COMMANDS.values() for parameter in command.params]
    assert [text for text in helps if "[" in text] == []
