"""The command `knowgap`."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Annotated, Any

import typer
from rich.markup import escape

from knowgap.cli import ask, compile, demo, evaluate, experiment, index, report
from knowgap.cli.display import err, remark
from knowgap.cli.running.stopping import STOPPED, say_stopped, stopping_soon
from knowgap.cli.running.waiting import saying_what_is_waited_for
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
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Options that stand before the command; `main` reads --debug itself."""


def _interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """Let Ctrl-C stop a command without a traceback."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt:
            say_stopped()
            raise typer.Exit(STOPPED) from None

    return run


for module in (demo, ask, index, evaluate, compile, report, experiment):
    for name, function in module.COMMANDS.items():
        app.command(name)(_interruptible(function))


def _show_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    """Show a warning as one line, without the line of code that it comes from."""
    remark(f"warning: {' '.join(str(message).split())}")


def main(arguments: list[str] | None = None) -> None:
    """Run the command. An error that knowgap raises on purpose is one line and exit code 2.

    Args:
        arguments: the words after `knowgap`; None takes those of this process.
    """
    # Must be set before torch is loaded: waiting threads then sleep instead of taking the time of busy ones.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    again = sys.orig_argv[1:] if arguments is None else ["-m", "knowgap", *arguments]
    stopping = stopping_soon() if arguments is None else nullcontext()  # a caller keeps its own signals
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        with stopping, saying_what_is_waited_for(), warnings.catch_warnings():
            warnings.filterwarnings("default", category=UserWarning, module="knowgap")
            warnings.showwarning = _show_warning
            app(arguments, obj=[sys.executable, *again])  # the command line that other workers of a study run
    except KnowgapError as error:
        if "--debug" in arguments:
            raise
        err.print(f"[bold red]error:[/bold red] {escape(' '.join(str(error).split()))}")
        sys.exit(2)
