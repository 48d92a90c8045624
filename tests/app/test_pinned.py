"""The public API and the command's help, pinned: a change shows in the diff of tests/pinned.

Renew with `python tests/app/test_pinned.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PINNED = Path(__file__).parents[1] / "pinned"


def api() -> str:
    """Every public name with its signature."""
    import knowgap

    lines = []
    for name in knowgap.__all__:
        thing = getattr(knowgap, name)
        if name == "__version__":
            continue
        kind = "class" if inspect.isclass(thing) else "def"
        try:
            signature = str(inspect.signature(thing))
        except (TypeError, ValueError):
            signature = ""
        lines.append(f"{kind} {name}{signature}")
        if inspect.isclass(thing) and hasattr(thing, "hyperparameters"):
            declared = thing.hyperparameters().values()
            lines += [f"    {h.name} = {h.default!r}  ({h.bounds})" for h in declared]
    return "\n".join(lines) + "\n"


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with its name; that of a command in a group has two words."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def command_help() -> str:
    """The options of every command."""
    import typer

    from knowgap.cli.main import app

    lines = []
    for name, command in commands(typer.main.get_command(app)):
        lines.append(f"knowgap {name}: {(command.help or '').splitlines()[0]}")
        for parameter in command.params:
            names = "/".join(parameter.opts + parameter.secondary_opts)
            variable = f" [{parameter.envvar}]" if parameter.envvar else ""
            lines.append(f"    {names}{variable}: {getattr(parameter, 'help', '') or ''}")
    return "\n".join(lines) + "\n"


def test_public_api():
    assert api() == (PINNED / "api.txt").read_text(encoding="utf-8")


def test_command_help():
    assert command_help() == (PINNED / "help.txt").read_text(encoding="utf-8")


if __name__ == "__main__":
    PINNED.mkdir(exist_ok=True)
    (PINNED / "api.txt").write_text(api(), encoding="utf-8")
    (PINNED / "help.txt").write_text(command_help(), encoding="utf-8")
