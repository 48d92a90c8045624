"""The command `knowgap`."""

from __future__ import annotations

import errno
import functools
import logging
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Annotated, Any

import typer
from rich.markup import escape

from knowgap.cli import ask, compile, evaluate, index, ls
from knowgap.cli.display import err, remark
from knowgap.cli.stopping import STOPPED, say_stopped, stopping_soon
from knowgap.errors import KnowgapError
from knowgap.plugins import import_from
from knowgap.version import __version__

app = typer.Typer(
    name="knowgap",
    help="Question answering that notices what it does not know yet and goes and looks for it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"knowgap {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error, and errors of questions whole.")
    ] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Options that stand before the command; `main` reads --debug itself."""


def _interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """Let Ctrl-C stop a command without a traceback, and say what is wrong with a file or with standard output."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except OSError as error:  # Typer would end without a word if standard output is closed
            raise _FileError(error) from error
        except KeyboardInterrupt:
            say_stopped()
            raise typer.Exit(STOPPED) from None

    return run


class _FileError(KnowgapError):
    """The error for a file that cannot be read or written, with one line that says what to do."""

    def __init__(self, error: OSError) -> None:
        if isinstance(error, BrokenPipeError):
            with suppress(OSError):  # what is left in the buffer would raise again at the end of the process
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            super().__init__("standard output was closed before everything was written")
            return
        reason = error.strerror or str(error)
        file = error.filename2 or error.filename  # of two, the second is the target
        text = f"{file}: {reason}" if file else reason
        super().__init__(f"{text}; {advice}" if (advice := _ADVICE.get(error.errno or 0)) else text)


_KEPT = "what was done is kept"
_ADVICE = {
    **dict.fromkeys((errno.ENOSPC, errno.EFBIG), f"free some space: {_KEPT}, and the same command continues"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), f"name a place that can be written to: {_KEPT}"),
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), "a file stands where a folder is needed: name another place"),
}

_GROUPS: dict[str, dict[str, Callable[..., None]]] = {
    "Ask and serve": {
        "index": index.index,
        "ask": ask.ask,
        "search": index.search,
        "serve": ask.serve,
        "mcp": ask.mcp,
        "doctor": ls.doctor,
        "ls": ls.ls,
    },
    "Measure": {"eval": evaluate.evaluate, "questions": index.questions, "report": evaluate.report},
    "Make better": {"compile": compile.compile_, "train": compile.train},
    "Research": {"experiment": evaluate.experiment},
}

for group, commands in _GROUPS.items():
    for name, command in commands.items():
        app.command(name, rich_help_panel=group)(_interruptible(command))


class _Remarks(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        remark(self.format(record))


def _set_up_logs(debug: bool) -> None:
    """Print the library's log messages; with --debug, all of them, and DSPy's about replies that were cut off."""
    log = logging.getLogger("knowgap")
    log.handlers = [_Remarks()]
    log.setLevel(logging.DEBUG if debug else logging.WARNING)
    logging.getLogger("dspy.clients.lm").setLevel(logging.WARNING if debug else logging.ERROR)


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
    stopping = stopping_soon() if arguments is None else nullcontext()  # a caller keeps its own signals
    arguments = sys.argv[1:] if arguments is None else arguments
    with suppress(FileNotFoundError):  # the current folder was removed
        import_from(os.getcwd())
    try:
        with stopping, warnings.catch_warnings():
            _set_up_logs("--debug" in arguments)
            warnings.filterwarnings("default", category=UserWarning, module="knowgap")
            warnings.showwarning = _show_warning
            app(arguments)
    except KnowgapError as error:
        if "--debug" in arguments:
            raise
        err.print(f"[bold red]error:[/bold red] {escape(' '.join(str(error).split()))}")
        sys.exit(2)
