"""What files are converted to: a text with its headings and tables, or an error; and the rows of tables as lines."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

_PRIVATE = re.compile("[\xad\u200b\u2060\ufeff\ue000-\uf8ff\U000f0000-\U0010ffff]")


class Unreadable(Exception):
    """A file has no text that can be read; the message says why, in a few words."""


class NotNow(Unreadable):
    """A file cannot be read now, but perhaps can be later, or with another library installed."""


def line_starts(lines: Sequence[str]) -> list[int]:
    """The start of each line in the text that joins them by line ends, and the start of one more line."""
    return list(accumulate((len(line) + 1 for line in lines), initial=0))


def without_private(text: str) -> str:
    """Drop what would part a word from its search: soft hyphens, marks without width, and accents apart from letters.

    Private-use characters, which are signs of some font, such as a permalink or the bullet of a list, are dropped too.
    """
    return unicodedata.normalize("NFC", _PRIVATE.sub("", text))


class Heading(NamedTuple):
    """A heading: its level from 1, its words, and where it begins and ends in the text."""

    level: int
    words: str
    start: int
    end: int


class Table(NamedTuple):
    """A table in a text: where its rows begin and end, and the lines that name its columns, to be repeated."""

    start: int
    end: int
    header: str


@dataclass(frozen=True)
class Text:
    """The text of a file as Markdown or plain text.

    Args:
        text: the text of the file.
        title: its own title; empty if it has none.
        markdown: whether it is Markdown, whose headings and tables are found in the text.
        unit: the unit of `pages`: "page", "slide" or "row"; empty for none.
        pages: where each page, slide or row begins: (position in the text, number), ascending.
        headings: the headings of plain text, in order.
        rows: ranges of plain text, (start, end), whose lines are rows of a table, with the names of their columns.
        note: a note for the user about how the file was read, or empty.
    """

    text: str
    title: str = ""
    markdown: bool = False
    unit: str = ""
    pages: list[tuple[int, int]] = field(default_factory=list)
    headings: list[Heading] = field(default_factory=list)
    rows: list[tuple[int, int]] = field(default_factory=list)
    note: str = ""


def joined(rows: Sequence[Sequence[str]]) -> list[str]:
    """One row of names of several: what stands above a column, from top to bottom, each once."""
    return [" ".join(dict.fromkeys(filter(None, column))) for column in zip(*rows, strict=True)]


def line(cells: Mapping[int, str], names: Mapping[int, str]) -> str:
    """A row as a line, such as `town: Tarn; founded: 1931`; empty cells are left out, and keep their places so."""
    named = ((names.get(column, ""), " ".join(text.split())) for column, text in cells.items())
    return "; ".join(f"{name}: {text}" if name else text for name, text in named if text)
