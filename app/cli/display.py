"""What the command line shows: tables on standard output, progress and remarks on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

__all__ = ["Report", "err", "out", "progress", "remark", "show_table"]

Report = Callable[..., None]


def _console(**kwargs: Any) -> Console:
    console = Console(highlight=False, soft_wrap=False, **kwargs)
    if not console.is_terminal:
        console = Console(highlight=False, soft_wrap=False, width=220, **kwargs)
    return console


out = _console()
err = _console(stderr=True)


def remark(text: str) -> None:
    """A line about what is going on, on standard error."""
    err.print(escape(text), style="dim")


def show_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, caption: str | None = None
) -> None:
    """A table on standard output; columns whose cells start with a digit are set right."""
    table = Table(title=escape(title), caption=escape(caption) if caption else None, title_justify="left")
    for number, column in enumerate(columns):
        cells = [str(row[number]) for row in rows]
        numeric = number > 0 and all(cell[:1] in "-–+0123456789" for cell in cells if cell)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    out.print(table)


@contextmanager
def progress(what: str) -> Iterator[Report]:
    """Show how far a piece of work has come: `report(done, total, text)`.

    A bar with a time estimate on a terminal; elsewhere a line now and then.
    """
    if err.is_terminal:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("[dim]{task.fields[text]}"),
        )
        with Progress(*columns, console=err, transient=False) as bar:
            task = bar.add_task(escape(what), total=None, text="")

            def show(done: int, total: int | None = None, text: str = "") -> None:
                bar.update(task, completed=done, total=total, text=escape(text))

            yield show
        return

    last = [0.0]

    def line(done: int, total: int | None = None, text: str = "") -> None:
        now = time.monotonic()
        if now - last[0] >= 5 or done == total:
            last[0] = now
            size = f"{done}/{total}" if total else str(done)
            err.print(escape(f"{what}: {size} {text}".rstrip()))

    yield line
