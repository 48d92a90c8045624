"""What commands show: tables on standard output, progress and remarks on standard error."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from knowgap.errors import without_credentials
from knowgap.storage.processes import is_main_process

Report = Callable[..., None]
_WIDTH = 80  # columns if there is no terminal and COLUMNS is not set
_TEXT = 16  # the least columns of a text
_LONGEST = 24  # a longer word may be cut
_BORDER = 3  # console columns that a table adds to each of its columns
_INTERVAL = 5.0  # seconds between lines of progress
_LONG = 60.0  # seconds; a shorter remaining time is not shown

_CONTROLS = [*range(0x20), *range(0x7F, 0xA0), 0x061C, *range(0x200E, 0x2010), *range(0x2028, 0x202F)]
_CONTROLS += [*range(0x2066, 0x206A), *range(0xD800, 0xE000)]
_ESCAPED = {code: f"\\u{code:04x}" for code in _CONTROLS if chr(code) not in "\n\t"}


class _SafeConsole(Console):
    """Escapes control characters in texts: those of terminals, and those that reverse the direction of text.

    A passage or an answer could otherwise control the terminal. JSON is not changed.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(text.translate(_ESCAPED), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(segment.text.translate(_ESCAPED), segment.style)

    def print(self, *objects: Any, soft_wrap: bool | None = None, **options: Any) -> None:
        """Print; lines of text are not wrapped if the output is not a terminal."""
        if soft_wrap is None and not self.is_terminal:
            soft_wrap = all(isinstance(each, str) for each in objects)
        super().print(*objects, soft_wrap=soft_wrap, **options)


def _console(*, stderr: bool = False) -> Console:
    console = _SafeConsole(highlight=False, emoji=False, stderr=stderr)
    if not console.is_terminal:
        columns = os.environ.get("COLUMNS", "")
        console.width = (int(columns) if columns.isdecimal() else 0) or _WIDTH
    return console


out = _console()
err = _console(stderr=True)
out.quiet = err.quiet = not is_main_process()  # of processes that train together, only one prints


def remark(text: str) -> None:
    """Print a line about what is going on, on standard error."""
    err.print(escape(without_credentials(text)), style="dim")


def show_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, caption: str | None = None
) -> None:
    """Print a table on standard output, within its width; columns of numbers are aligned right.

    Texts are wrapped if necessary, numbers are not. Columns that do not fit follow in a further table, which repeats
    the first column.
    """
    every = [_Column(*(str(cell).translate(_ESCAPED) for cell in cells)) for cells in zip(columns, *rows, strict=True)]
    groups = [[every[0]]]
    for column in every[1:]:
        needed = sum(each.least + _BORDER for each in [*groups[-1], column]) + 1
        if len(groups[-1]) > 1 and needed > out.width:
            groups.append([every[0]])
        groups[-1].append(column)
    for group in groups:
        table = Table(title=escape(title) if group is groups[0] else None, title_justify="left")
        table.caption = escape(caption) if caption and group is groups[-1] else None
        spare = out.width - 1 - sum(column.least + _BORDER for column in group)
        in_turn = sorted(group, key=lambda column: column.wanted)
        for left, column in zip(range(len(group), 0, -1), in_turn, strict=True):
            column.width = column.least + min(column.wanted, max(0, spare) // left)
            spare -= column.width - column.least
        for column in group:
            side = "right" if column.is_numeric and column is not every[0] else "left"
            table.add_column(escape(column.header), justify=side, overflow="fold", width=column.width)
        for cells in zip(*(column.cells for column in group), strict=True):
            table.add_row(*map(escape, cells))
        out.print(table)


class _Column:
    """A column of a table: its cells, the least width that cuts no word or number, and how much more it would take."""

    def __init__(self, header: str, *cells: str):
        self.header, self.cells = header, cells
        self.is_numeric = all(cell[:1] in "<-–+0123456789" for cell in cells if cell)
        words = [*header.split(), *(cells if self.is_numeric else " ".join(cells).split())]
        self.least = min(_LONGEST, max(map(cell_len, words), default=0))
        if not self.is_numeric:
            self.least = max(self.least, min(_TEXT, max(map(cell_len, [header, *cells]))))
        lines = [] if self.is_numeric else "\n".join([header, *cells]).split("\n")
        self.wanted = max(0, max(map(cell_len, lines), default=0) - self.least)
        self.width = self.least


@contextmanager
def progress(what: str) -> Iterator[Report]:
    """Show the progress of work, of which the block reports by `report(done, total, text)`.

    A terminal shows one line, which changes; other outputs get a line every few seconds.
    """
    if not err.is_terminal:
        yield line_progress(what)
        return
    with err.status(escape(what)) as status:
        yield line_progress(what, status.update, 0.2)


def line_progress(what: str, show: Callable[[str], None] | None = None, interval: float = _INTERVAL) -> Report:
    """Show the progress of work by a line, at most one in `interval` seconds, with the time left at the speed so far.

    `show` shows a line; by default, it is printed on standard error.
    """
    last, began = 0.0, (time.monotonic(), 0)
    all_of: int | None = None

    def report(done: int, total: int | None = None, text: str = "") -> None:
        nonlocal last, began, all_of
        now = time.monotonic()
        if total != all_of or done < began[1]:  # another piece of work; what an earlier run recorded took no time
            began, all_of = (now, done), total
        if now - last >= interval or done == total:
            last = now
            left = (now - began[0]) / max(1, done - began[1]) * ((total or done) - done)
            time_left = f"{left / 60:.0f} min" if left < 7200 else f"{left / 3600:.0f} h"
            until = f", about {time_left} left" if left >= _LONG else ""
            size = f"{done}/{total}" if total else str(done)
            (show or err.print)(escape(f"{what}: {size} {text}".rstrip() + until))

    return report
