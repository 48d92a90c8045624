"""The public API and the names of commands and options, pinned: a change shows in the diff of tests/pinned.

Renew with `python tests/app/test_pinned.py`.
"""

import inspect
from pathlib import Path
from typing import Any, cast

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


def command_names() -> str:
    """Every command with the names of its options."""
    lines = [f"knowgap {name}: {' '.join(options)}".rstrip() for name, options in option_names().items()]
    return "\n".join(lines) + "\n"


def option_names() -> dict[str, list[str]]:
    """The names of the options of every command; --help and --help-all are left out."""
    import typer

    from knowgap.cli.main import app

    return {
        name: [
            "/".join(parameter.opts + parameter.secondary_opts)
            for parameter in command.params
            if parameter.param_type_name == "option" and not {"--help", "--help-all"} & {*parameter.opts}
        ]
        for name, command in cast("Any", typer.main.get_command(app)).commands.items()
    }


def test_public_api():
    assert api() == (PINNED / "api.txt").read_text(encoding="utf-8")


def test_command_names():
    assert command_names() == (PINNED / "commands.txt").read_text(encoding="utf-8")
    assert sum(map(len, option_names().values())) <= 105


if __name__ == "__main__":
    PINNED.mkdir(exist_ok=True)
    (PINNED / "api.txt").write_text(api(), encoding="utf-8")
    (PINNED / "commands.txt").write_text(command_names(), encoding="utf-8")
