"""Splitting of long texts into passages at headings, paragraphs and sentences, within the window of the encoder."""

from __future__ import annotations

import hashlib
import itertools
import re
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from knowgap.errors import ValueOutOfBounds
from knowgap.retrieval.documents.sources import Source
from knowgap.retrieval.documents.text import Text
from knowgap.retrieval.passage import Passage, part_id
from knowgap.retrieval.window import Window, embedded_window

PASSAGE_TOKENS = 256
"""The most tokens of a passage, including its title and the encoder's marks; a smaller window lowers the limit."""

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)$")
_MARKED = re.compile(r"(`+|\*{1,3}|_{2,3})(\S|\S.*?\S)\1")
_UNDERLINE = re.compile(r" {0,3}(=+|-{3,})[ \t]*$")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_TABLE_RULE = re.compile(r"[ \t]*(\|[ \t]*)?:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*(\|[ \t]*)?$")
_BULLET = re.compile(r"\s|[-*•–—]\s|\(?\w{1,3}[.)]\s")
_PARAGRAPH_END = re.compile(r"\n\s*")
_SENTENCE_END = re.compile(r"\n\s*|(?<=[.!?])[\"'”’)\]]*\s+|(?<=[。！？])")
_SMALLEST = 32
_CHARACTERS_PER_TOKEN = 12  # the most in a passage, since a long string without spaces may be a single token
_BLOCK = 32  # characters of a block per token of a passage: a block has about eight passages
_QUICK = 3  # the least average bytes per token in most languages


class Table(NamedTuple):
    """A table in a text: where its rows begin and end, and the lines that name its columns, to be repeated."""

    start: int
    end: int
    header: str

    def moved(self, by: int) -> Table:
        """The same table in a text that begins elsewhere."""
        return Table(self.start + by, self.end + by, self.header)


class _Chunk(NamedTuple):
    """A part of a text, from `start` to `end`, and what is put before it."""

    start: int
    end: int
    header: str = ""
    is_table: bool = False


@dataclass(frozen=True)
class Piece:
    """A passage, and the position of its text in the text that was split, in characters."""

    passage: Passage
    start: int
    end: int


class Splitter:
    """Splits texts into passages of a limited number of tokens.

    Args:
        window: the window of the encoder that will encode the passages; None takes the embedded encoder's, and then
            does not count the tokens of short texts.
        tokens: the most tokens of a passage, from 32; the window, if it is smaller, limits them further.

    Raises:
        ValueOutOfBounds: tokens < 32.
    """

    def __init__(self, window: Window | None = None, tokens: int = PASSAGE_TOKENS) -> None:
        if tokens < _SMALLEST:
            raise ValueOutOfBounds(f"passage_tokens = {tokens}: must be at least {_SMALLEST}")
        self._given = window
        self.limit = min(tokens, window.size) if window is not None else tokens
        self._overlap = self.limit // 6

    @cached_property
    def _window(self) -> Window:
        return self._given or embedded_window()

    def _count(self, text: str) -> int:
        return self._window.count([text])[0]

    def fits(self, passage: Passage) -> bool:
        """Whether a passage needs no splitting."""
        text = str(passage)
        n_bytes = len(text.encode("utf-8", "surrogatepass"))
        if len(text) + 8 <= self.limit or (self._given is None and n_bytes <= _QUICK * self.limit):
            return True
        return len(text) <= _CHARACTERS_PER_TOKEN * self.limit and self._count(text) <= self.limit

    def split_passage(self, passage: Passage) -> list[Piece]:
        """Split a passage into pieces that each have its title; a passage that fits is returned as it is."""
        if self.fits(passage):
            return [Piece(passage, 0, len(passage.text))]
        title, above = self._title([passage.title]), ""
        if title != passage.title and self._count(passage.title) > self.limit // 2:
            above = f"{passage.title}\n\n"  # a title that is too long becomes part of the text
        else:
            title = passage.title
        pieces = self._cut(title, above + _unwrap(passage.text), -len(above), [], markdown=False)
        return self._numbered(passage.id, ((title, text, max(0, at), max(0, end)) for title, text, at, end in pieces))

    def split_file(self, file: str, text: Text) -> list[tuple[Piece, Source]]:
        """Split a file into passages with their places.

        Headings, from Markdown or from `text`, become part of the titles. Every title begins with the name of the file
        where one heading does not cover all of it, as on slides and sheets. Tables are cut between their rows.
        """
        name, by_name = text.title or PurePosixPath(file).stem, bool(text.title) or text.unit in ("slide", "row")
        body = text.text if text.markdown else _unwrap(text.text, text.rows)
        tables = [Table(start, end, "") for start, end in text.rows]
        if text.markdown:
            tables = sorted([*tables, *find_tables(body)])
        if text.markdown or text.headings:
            sections = _find_sections(body, _headings(body) if text.markdown else text.headings)
            pieces = self._split_sections(name, body, sections, tables, by_name=by_name, markdown=text.markdown)
        else:
            pieces = self._cut(self._title([name]), body, 0, tables, markdown=False)
        placed = []
        for piece in self._numbered(file, pieces):
            first, last = (_number_at(text.pages, at) for at in (piece.start, max(piece.start, piece.end - 1)))
            placed.append((piece, Source(file, piece.start, piece.end, text.unit if first else "", first, last)))
        return placed

    def _split_sections(
        self, name: str, text: str, sections: list[_Section], tables: list[Table], *, by_name: bool, markdown: bool
    ) -> Iterator[tuple[str, str, int, int]]:
        tops = {section.headings[0] for section in sections if section.headings}
        parts = [] if not by_name and len(tops) == 1 and not text[: sections[0].end].strip() else [name]
        for number, section in enumerate(sections):
            title = self._title(_distinct([*parts, *section.headings]))
            start = section.start
            if section.headings and section.headings[-1] not in title:
                start = section.heading_start
            if not text[start : section.end].strip():
                following = sections[number + 1] if number + 1 < len(sections) else None
                if not section.headings or (following is not None and self._repeats(section, following, parts)):
                    continue
                start = section.heading_start
            inside = [table for table in tables if table.start < section.end and table.end > start]
            yield from self._cut(title, text[start : section.end], start, inside, markdown=markdown)

    def _repeats(self, section: _Section, following: _Section, parts: list[str]) -> bool:
        """Whether the title of the following section contains the heading of a section without text."""
        below = following.headings[: len(section.headings)] == section.headings
        return below and section.headings[-1] in self._title(_distinct([*parts, *following.headings]))

    def _title(self, parts: list[str]) -> str:
        """Join parts to a title; if it is too long, the middle parts are left out, then the first, then its end."""
        parts = [" ".join(part.split()) for part in parts if part.strip()]
        for chosen in (parts, [*parts[:1], *parts[-1:]], parts[-1:]):
            title = " / ".join(_distinct(chosen))
            if self._count(title) <= self.limit // 4 and len(title) <= self.limit:
                return title
        return title[: self.limit // 4].rpartition(" ")[0] or title[: self.limit // 8]

    def _cut(
        self, title: str, text: str, offset: int, tables: list[Table], *, markdown: bool
    ) -> Iterator[tuple[str, str, int, int]]:
        """The title, text, start and end of each passage of a section that begins at `offset`, as the tables count."""
        marked = self._count(f"{title}: x") if title else self._count("x")
        if len(text) <= _CHARACTERS_PER_TOKEN * self.limit and marked + self._count(text) <= self.limit:
            start, end = _stripped(text, 0, len(text))
            if start < end:
                yield title, _tidy(text[start:end]), offset + start, offset + end
            return
        capacity = max(_SMALLEST // 2, (self.limit - marked - self._overlap) // 8 * 8)
        last: _Chunk | None = None
        for chunk in self._chunks(text, [table.moved(-offset) for table in tables], capacity, markdown):
            start = chunk.start
            if last is not None and not (last.is_table or chunk.is_table):
                start = self._overlapping(text, last.start, chunk.start)
            body = _tidy(chunk.header + text[start : chunk.end])
            if self._count(f"{title}: {body}" if title else body) > self.limit:
                start, body = chunk.start, _tidy(text[chunk.start : chunk.end])
            last = chunk
            yield title, body, offset + start, offset + chunk.end

    def _chunks(self, text: str, tables: list[Table], capacity: int, markdown: bool) -> Iterator[_Chunk]:
        """The pieces of a text, of prose and of tables; the words right above a table stay with its first rows."""
        position, above = 0, None
        for table in [*tables, Table(len(text), len(text), "")]:
            start, end = max(table.start, position), min(table.end, len(text))
            prose = list(self._prose(text, position, start, capacity, markdown))
            above = None
            if prose and start < end and self._count(text[prose[-1].start : prose[-1].end]) <= capacity // 3:
                above = prose.pop().start
            yield from prose
            yield from self._rows(text, start, end, table.header, capacity, above)
            position = max(position, end)

    def _prose(self, text: str, start: int, end: int, capacity: int, markdown: bool) -> Iterator[_Chunk]:
        splitter, longest = _chunker(self._window.tokenizer, capacity, markdown), _CHARACTERS_PER_TOKEN * self.limit
        for first, last in _find_blocks(text[start:end], _BLOCK * self.limit):
            for at, chunk in splitter.chunk_indices(text[start + first : start + last]):
                for place in range(0, len(chunk), longest):
                    begin, stop = _stripped(chunk, place, min(len(chunk), place + longest))
                    if begin < stop:
                        yield _Chunk(start + first + at + begin, start + first + at + stop)

    def _rows(self, text: str, start: int, end: int, header: str, capacity: int, above: int | None) -> Iterator[_Chunk]:
        """The rows of a table, as many together as fit, each piece after the first with the header.

        A row that is too long for a passage is cut as prose is; its parts have the first cell of the row before them.
        """
        lines = [
            (start + found.start(), start + found.end()) for found in re.finditer(r"[^\n]*\S[^\n]*", text[start:end])
        ]
        if not lines:
            return
        repeated = header if self._count(header) <= capacity // 2 else ""
        room, marks = capacity - self._count(repeated), self._window.marks
        tokens = self._window.count([text[first:last] for first, last in lines])
        longest = ((last - first) // _CHARACTERS_PER_TOKEN for first, last in lines)
        counts = [max(count - marks, least) for count, least in zip(tokens, longest, strict=True)]
        cuts = {begin for begin, _ in _find_blocks(text[start:end], _BLOCK * self.limit, rows=True)}
        begin = lines[0][0] if above is None else above
        used = 0 if above is None else self._count(text[above:start])
        stop = begin
        for (first, last), count in zip(lines, counts, strict=True):
            if stop > begin and (used + count > room or (first - start in cuts and first > start)):
                yield _Chunk(begin, stop, repeated if begin > start else "", is_table=True)
                begin, used = first, 0
            stop, used = last, used + count
            if count > room:
                yield from self._long_row(text, begin, last, repeated if begin > start else "", room)
                begin, used, stop = last, 0, last
        if stop > begin:
            yield _Chunk(begin, stop, repeated if begin > start else "", is_table=True)

    def _long_row(self, text: str, start: int, end: int, header: str, room: int) -> Iterator[_Chunk]:
        key = text[start:end].partition("; ")[0].strip() if not header else ""
        key = f"{key}; " if 0 < len(key) < room else ""
        for number, chunk in enumerate(
            self._prose(text, start, end, max(_SMALLEST // 2, room - self._count(key)), False)
        ):
            yield _Chunk(chunk.start, chunk.end, header or (key if number else ""), is_table=True)

    def _overlapping(self, text: str, previous: int, first: int) -> int:
        """The start of a passage that repeats the last sentence before it, or the last words of a long sentence."""
        start = _last_sentence(text, max(previous, first - 6 * self._overlap), first)
        words = [match.start() for match in re.finditer(r"(?<!\S)\S", text[start:first])]
        for place in (words[0], words[-self._overlap // 3]) if len(words) > self._overlap // 3 else words[:1]:
            if self._count(text[start + place : first]) - self._window.marks <= self._overlap:
                return start + place
        return first

    @staticmethod
    def _numbered(document: str, pieces: Iterable[tuple[str, str, int, int]]) -> list[Piece]:
        """Give passages their ids: that of the document, and a digest of title and text; equal ones are numbered."""
        seen: Counter[str] = Counter()
        passages = []
        for title, text, start, end in pieces:
            digest = hashlib.sha256(f"{title}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()
            seen[digest] += 1
            passages.append(Piece(Passage(part_id(document, digest, seen[digest]), title, text), start, end))
        return passages


@lru_cache(maxsize=64)
def _chunker(tokenizer: Any, capacity: int, markdown: bool) -> Any:
    from semantic_text_splitter import MarkdownSplitter, TextSplitter

    return (MarkdownSplitter if markdown else TextSplitter).from_huggingface_tokenizer(tokenizer, capacity)


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
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t\r\f\v]+(?=\n)", "", text.replace("\r\n", "\n"))).strip()


@dataclass(frozen=True)
class _Section:
    """The text from `start` to `end` under a heading that begins at `heading_start`.

    `headings` are the headings that the text is under, the highest level first.
    """

    headings: tuple[str, ...]
    heading_start: int
    start: int
    end: int


def _find_sections(text: str, headings: Iterable[tuple[int, str, int, int]]) -> list[_Section]:
    """The sections of a text, in order; together with their headings they cover the whole text."""
    sections: list[_Section] = []
    above: list[tuple[int, str]] = []
    heading_start = start = 0
    for level, heading, first, after in headings:
        sections.append(_Section(tuple(words for _, words in above), heading_start, start, first))
        above = [*(upper for upper in above if upper[0] < level), (level, heading)]
        heading_start, start = first, after
    sections.append(_Section(tuple(words for _, words in above), heading_start, start, len(text)))
    return sections


def _headings(markdown: str) -> Iterator[tuple[int, str, int, int]]:
    """The level, text, start and end of each heading outside of code blocks."""
    fence, position = "", 0
    above, above_start, above_alone = "", 0, False  # the line before, and whether a blank line is before it
    for line in markdown.splitlines(keepends=True):
        start, position = position, position + len(line)
        bare = line.rstrip("\r\n")
        if mark := _FENCE.match(bare):
            if not fence:
                fence = mark[1]
            elif mark[1].startswith(fence) and not bare.strip(" `~"):
                fence = ""
            above = ""
            continue
        if fence:
            continue
        if heading := _HEADING.match(bare):
            words = heading[2].rstrip(" \t").rstrip("#").strip()
            yield len(heading[1]), _MARKED.sub(r"\2", words), start, position
            above, above_alone = "", True
            continue
        if above.strip() and above_alone and "|" not in above and (rule := _UNDERLINE.match(bare)):
            yield (1 if rule[1][0] == "=" else 2), _MARKED.sub(r"\2", above.strip()), above_start, position
            above, above_alone = "", True
            continue
        above_alone = not above.strip()
        above, above_start = bare, start


def find_tables(markdown: str) -> list[Table]:
    """The tables of Markdown; they begin with the line above their rule and end before a line without a bar."""
    tables: list[Table] = []
    position, above, above_start, inside = 0, "", 0, False
    for line in markdown.split("\n"):
        start, position, bare = position, position + len(line) + 1, line.strip()
        if inside and "|" not in bare:
            tables[-1], inside = tables[-1]._replace(end=start), False
        elif not inside and "|" in bare and _TABLE_RULE.match(bare):
            header = f"{above}\n{bare}\n" if "|" in above else ""
            tables.append(Table(above_start if header else start, len(markdown), header))
            inside = True
        above, above_start = bare, start
    return tables


def _unwrap(text: str, rows: Sequence[tuple[int, int]] = ()) -> str:
    """Replace each line end at which a line was only wrapped by a space, without moving any position.

    A line was wrapped if it is nearly as wide as the wide lines of the text, and no blank line, indented line or item
    of a list follows. The rows of tables, which are in these ranges, are left as they are.
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
    joined = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        wrapped = len(line.rstrip()) >= 0.7 * width and following.strip() and not _BULLET.match(following)
        joined.append(f"{line.removesuffix(chr(13))} {' ' * line.endswith(chr(13))}" if wrapped else f"{line}\n")
    return "".join(joined)[: len(text)]


def _find_blocks(text: str, size: int, *, rows: bool = False) -> list[tuple[int, int]]:
    """Cut a long text into blocks so that a later edit only moves the cuts near it; [(start, end)].

    A cut is before a paragraph, or before a sentence if paragraphs are long, and is chosen by a checksum of its words,
    as in content-defined chunking (Muthitacharoen et al. 2001, "LBFS"). There are about `size` characters between two
    cuts, and at least an eighth of that.
    """
    if len(text) <= 2 * size:
        return [(0, len(text))]
    ends = [match.end() for match in _PARAGRAPH_END.finditer(text)]
    if len(ends) < 4 * len(text) / size and not rows:
        ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    cuts = [0]
    for start, end in itertools.pairwise([*ends, len(text)]):
        checksum = zlib.crc32(text[start:end].encode("utf-8", "replace")) / 2**32
        if start - cuts[-1] >= size / 8 and checksum < (end - start) / size:
            cuts.append(start)
    return list(zip(cuts, [*cuts[1:], len(text)], strict=True))


def _last_sentence(text: str, start: int, end: int) -> int:
    """The start of the last sentence or line between two positions."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text, start, end) if match.end() < end]
    return ends[-1] if ends else start


def _number_at(pages: list[tuple[int, int]], position: int) -> int:
    """The number of the page at a position; 0 if there is none."""
    place = bisect_right(pages, position, key=lambda page: page[0]) - 1
    return pages[place][1] if place >= 0 else 0
