"""The command `knowgap`."""

from __future__ import annotations

import sys
from typing import Annotated

import click
import typer

from knowgap import cli_basic, cli_compile, cli_demo
from knowgap.display import err
from knowgap.errors import KnowgapError

__all__ = ["app", "main"]

app = typer.Typer(
    name="knowgap",
    help="Question answering that notices what it does not know yet and goes and looks for it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"knowgap {version('knowgap')}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Options that stand before the command."""
    context.obj = {"debug": debug}


for module in (cli_demo, cli_basic, cli_compile):
    for name, function in module.COMMANDS.items():
        app.command(name)(function)


def main(arguments: list[str] | None = None) -> None:
    """Run the command; exits 2, with one line, for what the user can mend."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        code = app(arguments, standalone_mode=False)
    except KnowgapError as error:
        _fail(error, "--debug" in arguments, 2)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        err.print("stopped; what was written so far is kept, and the same command continues it")
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(error: Exception, debug: bool, code: int) -> None:
    if debug:
        raise error
    err.print(f"[bold red]error:[/bold red] {_escaped(error)}")
    sys.exit(code)


def _escaped(error: Exception) -> str:
    from rich.markup import escape

    return escape(" ".join(str(error).split()))
