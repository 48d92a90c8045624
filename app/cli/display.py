"""What commands show: tables on standard output, progress and remarks on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table

from knowgap.errors import without_credentials
from knowgap.retrieval.index.files import naming

__all__ = ["Report", "err", "out", "progress", "remark", "show_table", "show_wait"]

Report = Callable[..., None]
_WIDTH = 220  # columns where there is no terminal
_INTERVAL = 5.0  # seconds between lines of progress


_CONTROLS = [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_ESCAPED = {code: f"\\u{code:04x}" for code in _CONTROLS if chr(code) not in "\n\t"}


class _SafeConsole(Console):
    """Writes control characters of texts as escapes: those of terminals, and those that reverse the direction.

    A passage or an answer could otherwise command the terminal. JSON stays what it was.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(segment.text.translate(_ESCAPED), segment.style)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; if the disk of a file that the output goes to is full, the error says so."""
        with naming("standard error" if self.stderr else "standard output"):
            super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        """Go on without standard error, where nobody reads it; raise `BrokenPipeError` for standard output."""
        if not self.stderr:
            raise BrokenPipeError
        self.quiet = True


def _console(*, stderr: bool = False) -> Console:
    console = _SafeConsole(highlight=False, stderr=stderr)
    return console if console.is_terminal else _SafeConsole(highlight=False, stderr=stderr, width=_WIDTH)


out = _console()
err = _console(stderr=True)


def remark(text: str) -> None:
    """Print a line about what is going on, on standard error."""
    err.print(escape(without_credentials(text)), style="dim")


def show_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, caption: str | None = None
) -> None:
    """Print a table on standard output; columns of numbers are aligned right."""
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
    """Show how far a piece of work has come; the block calls `report(done, total, text)`.

    On a terminal, a bar with the remaining time; elsewhere, a line every few seconds.
    """
    if not err.is_terminal:
        yield _line_progress(what)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("[dim]{task.fields[text]}"),
        TextColumn("[yellow]{task.fields[wait]}"),
    )
    with Progress(*columns, console=err) as bar:
        task = bar.add_task(escape(what), total=None, text="", wait="")
        _bars.append(lambda wait: bar.update(task, wait=escape(wait)))
        try:
            yield lambda done, total=None, text="": bar.update(task, completed=done, total=total, text=escape(text))
        finally:
            _bars.pop()


_bars: list[Callable[[str], None]] = []


def show_wait(text: str) -> bool:
    """Put a text about what is waited for into the progress bar, an empty one for none; False if there is no bar."""
    for show in _bars[-1:]:
        show(text)
    return bool(_bars)


def _line_progress(what: str) -> Report:
    last = 0.0

    def report(done: int, total: int | None = None, text: str = "") -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _INTERVAL or done == total:
            last = now
            size = f"{done}/{total}" if total else str(done)
            err.print(escape(f"{what}: {size} {text}".rstrip()))

    return report
