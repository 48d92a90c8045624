"""Tables as grids of cells: merged cells are repeated in their places, and rows get the names of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

_WIDEST, _MOST = 1000, 1_000_000
"""The most columns of a table, and the most cells that merged cells may add; a hostile page may claim billions."""

Cell = tuple[str, int, int]
"""The text of a cell, and how many rows and columns it covers."""


def spread(rows: Iterable[Sequence[Cell]]) -> list[list[str]]:
    """The grid of a table: a merged cell is repeated in each place that it covers, so that no cell moves."""
    grid: list[list[str]] = []
    below: dict[int, tuple[str, int]] = {}  # by column, the cell that reaches down into the next row, and how far
    left = _MOST
    for cells in rows:
        row, waiting = [], list(cells)[::-1]
        while waiting or any(column >= len(row) for column in below):
            column = len(row)
            if column in below:
                text, more = below.pop(column)
                if more > 1:
                    below[column] = (text, more - 1)
                row.append(text)
            elif waiting:
                text, down, across = waiting.pop()
                across = max(1, min(across, _WIDEST - column))
                for place in range(column, column + across):
                    if down > 1 and left > 0:
                        below[place] = (text, down - 1)
                row += [text] * across
                left -= across * min(max(down, 1), _WIDEST)
            else:
                row.append("")
            if len(row) >= _WIDEST:
                break
        grid.append(row)
    width = max(map(len, grid), default=0)
    return [row + [""] * (width - len(row)) for row in grid]


def joined(rows: Sequence[Sequence[str]]) -> list[str]:
    """One row of names of several: what stands above a column, from top to bottom, each once."""
    return [" ".join(dict.fromkeys(filter(None, column))) for column in zip(*rows, strict=True)]


def line(cells: Mapping[int, str], names: Mapping[int, str]) -> str:
    """A row as a line, such as `town: Tarn; founded: 1931`; empty cells are left out, and keep their places so."""
    named = ((names.get(column, ""), " ".join(text.split())) for column, text in cells.items())
    return "; ".join(f"{name}: {text}" if name else text for name, text in named if text)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown, whose first row has the names of the columns."""
    lines = [f"| {' | '.join(' '.join(cell.replace('|', '/').split()) for cell in row)} |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])
