"""Splitting of long texts into passages at headings, paragraphs and sentences, within the window of the encoder."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from knowgap.errors import ValueOutOfBounds
from knowgap.retrieval.documents.markdown import find_blocks
from knowgap.retrieval.documents.sources import Source, passage_digest
from knowgap.retrieval.documents.text import Heading, Table, Text
from knowgap.retrieval.minilm import Window, embedded_window
from knowgap.retrieval.passage import Passage, part_id

PASSAGE_TOKENS = 256
"""The most tokens of a passage, including its title and the encoder's marks; a smaller window lowers the limit."""

_BULLET = re.compile(r"\s|[-*•–—]\s|\(?\w{1,3}[.)]\s")
_COLUMNS = re.compile(r"[^\s.!?](?:\t| {3,})\S")  # space between cells, not between sentences
_DIGITS = re.compile(r"\d+")
_LINE = re.compile(r"[^\n]*\S[^\n]*")
_SMALLEST = 32
_CHARACTERS_PER_TOKEN = 12  # the most in a passage, since a long string without spaces may be a single token
_OVERLAP = 6  # a passage begins with at most this fraction of the one before, where a text was cut


class _Chunk(NamedTuple):
    """A part of a text, from `start` to `end`, and what is put before it."""

    start: int
    end: int
    header: str = ""


class Splitter:
    """Splits texts into passages of a limited number of tokens.

    Args:
        window: the window of the encoder that will encode the passages; None takes the embedded encoder's.
        tokens: the most tokens of a passage, from 32; the window, if it is smaller, limits them further.

    Raises:
        ValueOutOfBounds: tokens < 32.
    """

    def __init__(self, window: Window | None = None, tokens: int = PASSAGE_TOKENS) -> None:
        if not isinstance(tokens, int) or tokens < _SMALLEST:  # a command may be given any text
            raise ValueOutOfBounds(f"passage_tokens = {tokens}: must be a whole number from {_SMALLEST}")
        self._window = window or embedded_window()
        self.limit = min(tokens, self._window.size)

    def _count(self, text: str) -> int:
        return self._window.count([text])[0]

    def split_passage(self, passage: Passage) -> list[Passage]:
        """Split a passage into some that each have its title; a passage that fits is returned as it is."""
        whole, longest = str(passage), _CHARACTERS_PER_TOKEN * self.limit
        if len(whole) + 8 <= self.limit or (len(whole) <= longest and self._count(whole) <= self.limit):
            return [passage]
        title, text = passage.title, _unwrap(passage.text)
        if self._count(title) > self.limit // 2:  # a title that is too long becomes part of the text
            title, text = self._title([title]), f"{title}\n\n{text}"
        pieces = self._cut(title, text, 0, len(text), [], markdown=False)
        return _numbered(passage.id, [(title, words) for words, _, _ in pieces])

    def split_file(self, file: str, text: Text) -> list[tuple[Passage, Source]]:
        """Split a file into passages with their places.

        Headings, from Markdown or from `text`, become part of the titles. Every title begins with the name of the file
        where one heading does not cover all of it, as on slides and sheets. Tables are cut between their rows.
        """
        body = text.text if text.markdown else _unwrap(text.text, text.rows)
        headings, tables = find_blocks(body) if text.markdown else (text.headings, [])
        tables = sorted([*tables, *(Table(start, end, "") for start, end in text.rows)])
        name = text.title or PurePosixPath(file).stem
        pieces = list[tuple[str, str, int, int]]()
        for title, start, end in self._sections(name, text, body, headings):
            inside = [table for table in tables if table.start < end and table.end > start]
            pieces += [(title, *cut) for cut in self._cut(title, body, start, end, inside, markdown=text.markdown)]
        placed = []
        for passage, (_, _, start, end) in zip(_numbered(file, [each[:2] for each in pieces]), pieces, strict=True):
            first, last = (_number_at(text.pages, at) for at in (start, max(start, end - 1)))
            placed.append((passage, Source(file, text.unit if first else "", first, last)))
        return placed

    def _sections(
        self, name: str, text: Text, body: str, headings: Sequence[Heading]
    ) -> Iterator[tuple[str, int, int]]:
        """The title, start and end of each section that has text, or a heading that the next title does not have."""
        beginning, end = Heading(0, "", 0, 0), Heading(0, "", len(body), len(body))
        sections, above = list[tuple[list[str], int, int, int]](), list[Heading]()
        for heading, following in itertools.pairwise([beginning, *headings, end]):
            above = [*(upper for upper in above if upper.level < heading.level), heading]
            words = [each.words for each in above if each.level]
            sections.append((words, heading.start, heading.end, following.start))
        is_covered = len({words[0] for words, *_ in sections if words}) == 1 and not body[: sections[0][-1]].strip()
        by_name = bool(text.title) or text.unit in ("slide", "row") or not is_covered
        titles = [self._title([*([name] if by_name else []), *words]) for words, *_ in sections]
        for n, (words, heading, start, end) in enumerate(sections):
            is_empty = not body[start:end].strip()
            is_above = n + 1 < len(sections) and sections[n + 1][0][: len(words)] == words
            if is_empty and (not words or (is_above and words[-1] in titles[n + 1])):
                continue
            in_title = not words or words[-1] in titles[n]
            yield titles[n], start if in_title and not is_empty else heading, end

    def _title(self, parts: list[str]) -> str:
        """Join parts to a title; if it is too long, the middle parts are left out, then the first, then its end."""
        parts = [" ".join(part.split()) for part in parts if part.strip()]
        for chosen in (parts, [*parts[:1], *parts[-1:]], parts[-1:]):
            title = " / ".join(_distinct(chosen))
            if self._count(title) <= self.limit // 4 and len(title) <= self.limit:
                return title
        return title[: self.limit // 4].rpartition(" ")[0] or title[: self.limit // 8]

    def _cut(
        self, title: str, text: str, start: int, end: int, tables: list[Table], *, markdown: bool
    ) -> Iterator[tuple[str, int, int]]:
        """The words, start and end of each passage of the section of a text from `start` to `end`."""
        marked = self._count(f"{title}: x") if title else self._count("x")
        fits = end - start <= _CHARACTERS_PER_TOKEN * self.limit and marked + self._count(text[start:end]) <= self.limit
        start, end = _stripped(text, start, end)
        capacity = max(_SMALLEST // 2, (self.limit - marked) // 8 * 8)
        chunks = [_Chunk(start, end)] if fits else self._chunks(text, start, end, tables, capacity, markdown)
        for chunk in chunks:
            if words := _tidy(chunk.header + text[chunk.start : chunk.end]):
                yield words, chunk.start, chunk.end

    def _chunks(
        self, text: str, start: int, end: int, tables: list[Table], capacity: int, markdown: bool
    ) -> Iterator[_Chunk]:
        """The pieces of a text, of prose and of tables; the words right above a table stay with its first rows."""
        for table in [*tables, Table(end, end, "")]:
            first, last = max(table.start, start), min(table.end, end)
            prose, above = list(self._prose(text, start, first, capacity, markdown)), first
            if prose and first < last and self._count(text[prose[-1].start : prose[-1].end]) <= capacity // 3:
                above = prose.pop().start
            yield from prose
            yield from self._rows(text, above, first, last, table.header, capacity)
            start = max(start, last)

    def _prose(self, text: str, start: int, end: int, capacity: int, markdown: bool) -> Iterator[_Chunk]:
        splitter, longest = _chunker(self._window.tokenizer, capacity, markdown), _CHARACTERS_PER_TOKEN * self.limit
        for at, chunk in splitter.chunk_indices(text[start:end]):
            for place in range(start + at, start + at + len(chunk), longest):
                begin, stop = _stripped(text, place, min(start + at + len(chunk), place + longest))
                if begin < stop:
                    yield _Chunk(begin, stop)

    def _rows(self, text: str, above: int, start: int, end: int, header: str, capacity: int) -> Iterator[_Chunk]:
        """The rows of a table, as many together as fit, each piece after the first with the header.

        The first piece begins with the words at `above`. A row that is too long for a passage is cut as prose is; its
        parts have the first cell of the row before them.
        """
        lines = [(above, start)] if above < start else []
        lines += [found.span() for found in _LINE.finditer(text, start, end)]
        repeated = header if self._count(header) <= capacity // 2 else ""
        room, begin, used = capacity - self._count(repeated), above, 0
        tokens = self._window.count([text[first:last] for first, last in lines])
        for (first, last), count in zip(lines, tokens, strict=True):
            count = max(count - self._window.marks, (last - first) // _CHARACTERS_PER_TOKEN)
            if used and used + count > room:
                yield _Chunk(begin, first, repeated if begin > start else "")
                begin, used = first, 0
            used += count
            if count > room:
                yield from self._long_row(text, begin, last, repeated if begin > start else "", room)
                begin, used = last, 0
        if used:
            yield _Chunk(begin, end, repeated if begin > start else "")

    def _long_row(self, text: str, start: int, end: int, header: str, room: int) -> Iterator[_Chunk]:
        key = text[start:end].partition("; ")[0].strip() if not header else ""
        key = f"{key}; " if 0 < len(key) < room else ""
        prose = self._prose(text, start, end, max(_SMALLEST // 2, room - self._count(key)), False)
        for number, chunk in enumerate(prose):
            yield _Chunk(chunk.start, chunk.end, header or (key if number else ""))


def _numbered(document: str, pieces: Iterable[tuple[str, str]]) -> list[Passage]:
    """Passages of titles and texts, each with the id of the document and a digest; equal ones are numbered."""
    seen: Counter[str] = Counter()
    passages = []
    for title, text in pieces:
        digest = passage_digest(Passage("", title, text))
        seen[digest] += 1
        passages.append(Passage(part_id(document, digest, seen[digest]), title, text))
    return passages


@lru_cache(maxsize=64)
def _chunker(tokenizer: Any, capacity: int, markdown: bool) -> Any:
    from semantic_text_splitter import MarkdownSplitter, TextSplitter

    kind = MarkdownSplitter if markdown else TextSplitter
    return kind.from_huggingface_tokenizer(tokenizer, capacity, overlap=capacity // _OVERLAP)


def _distinct(parts: list[str]) -> list[str]:
    """Leave out the parts of a title that the next part repeats or the first part begins with."""
    kept = [part for n, part in enumerate(parts) if n + 1 == len(parts) or part.casefold() != parts[n + 1].casefold()]
    return [part for n, part in enumerate(kept) if not n or not kept[0].casefold().startswith(part.casefold())]


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """The range without white space at its beginning and end."""
    part = text[start:end].lstrip()
    return end - len(part), end - len(part) + len(part.rstrip())


def _tidy(text: str) -> str:
    """Remove spaces at line ends, and reduce several blank lines to one."""
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t\r\f\v]+(?=\n)", "", text)).strip()


def _unwrap(text: str, rows: Sequence[tuple[int, int]] = ()) -> str:
    """Replace each line end at which a line was only wrapped by a space, without moving any position.

    A line was wrapped if it is nearly as wide as the wide lines of the text, and no blank line, indented line or item
    of a list follows. The rows of tables, which are in these ranges, are left as they are. So are lines in columns, and
    records, such as those of a log: three lines or more begin as they do, but for other digits.
    """
    if rows:
        edges = [0, *(edge for each in rows for edge in each), len(text)]
        parts = [text[start:end] for start, end in itertools.pairwise(edges)]
        return "".join(part if number % 2 else _unwrap(part) for number, part in enumerate(parts))
    lines = text.split("\n")
    widths = sorted(len(line.rstrip()) for line in lines if line.strip())
    width = widths[int(0.9 * (len(widths) - 1))] if widths else 0
    if len(widths) < 3 or not 40 <= width <= 200:
        return text
    starts = [_DIGITS.sub("0", line)[:6] for line in lines]
    records = {start for start, count in Counter(starts).items() if count > 2 and "0" in start}
    joined = []
    for line, following, start in zip(lines, [*lines[1:], ""], [*starts[1:], ""], strict=True):
        wrapped = len(line.rstrip()) >= 0.7 * width and following.strip() and not _BULLET.match(following)
        wrapped = wrapped and start not in records and not (_COLUMNS.search(line) or _COLUMNS.search(following))
        joined.append(f"{line} " if wrapped else f"{line}\n")
    return "".join(joined)[: len(text)]


def _number_at(pages: list[tuple[int, int]], position: int) -> int:
    """The number of the page at a position; 0 if there is none."""
    place = bisect_right(pages, position, key=lambda page: page[0]) - 1
    return pages[place][1] if place >= 0 else 0
