"""The command `knowgap`."""

from __future__ import annotations

import errno
import gc
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

import typer
from rich.markup import escape

from knowgap.cli import ask, compile, evaluate, index, ls
from knowgap.cli.display import err, remark
from knowgap.errors import KnowgapError
from knowgap.lms.cancelling import stop_all_calls
from knowgap.version import __version__

STOPPED = 130
"""The exit code of a command that Ctrl-C stopped."""

_GRACE = 1.2  # seconds that the main thread has to end by itself after Ctrl-C

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


def _said_of(error: OSError) -> str:
    """What is wrong with a file that cannot be read or written, and what to do, in one line."""
    file = error.filename2 or error.filename  # of two, the second is the target
    advice = _ADVICE.get(error.errno or 0)
    return ": ".join(filter(None, (file, error.strerror or str(error), advice)))


_ADVICE = {
    **dict.fromkeys((errno.ENOSPC, errno.EFBIG), "free some space; the same command continues"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "name a place that can be written to"),
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
        paragraphs = (command.__doc__ or "").split("\n\n")
        told = "\n\n".join(" ".join(each.split()) for each in paragraphs)  # Typer keeps the ends of lines
        app.command(name, rich_help_panel=group, help=told)(command)


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


def _interrupt(*_: Any) -> None:
    """Cancel all questions on Ctrl-C, and end the process soon, though its threads may wait minutes for a model.

    Nothing is lost, since commands write their results in such a way that they can be killed at any time.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    err.print("stopped; what was done is kept, and the same command continues it")
    stop_all_calls()
    late = threading.Timer(_GRACE, ask.end_at_once, (STOPPED,))
    late.daemon = True
    late.start()
    sys.exit(STOPPED)


def main(arguments: list[str] | None = None) -> None:
    """Run the command. An error that knowgap raises on purpose is one line and exit code 2.

    Args:
        arguments: the words after `knowgap`; None takes those of this process.
    """
    # Must be set before torch is loaded: waiting threads then sleep instead of taking the time of busy ones.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    gc.set_threshold(100_000)  # what is imported stays: looking through it again and again takes a tenth of the time
    # A caller keeps its own signals, and a shell that is not interactive lets what it starts with & ignore this one.
    if stops := arguments is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    arguments = sys.argv[1:] if arguments is None else arguments
    with suppress(FileNotFoundError):  # the current folder was removed
        sys.path += {os.getcwd()} - {*sys.path}  # for plugins
    try:
        with warnings.catch_warnings():
            _set_up_logs("--debug" in arguments)
            warnings.filterwarnings("default", category=UserWarning, module="knowgap")
            warnings.showwarning = _show_warning
            app(arguments)
    except (KnowgapError, OSError) as error:
        if "--debug" in arguments:
            raise
        text = _said_of(error) if isinstance(error, OSError) else str(error)
        err.print(f"[bold red]error:[/bold red] {escape(' '.join(text.split()))}")
        sys.exit(2)
    except SystemExit as end:
        if stops and end.code == STOPPED:  # a normal exit would wait for the threads
            ask.end_at_once(STOPPED)
        raise
