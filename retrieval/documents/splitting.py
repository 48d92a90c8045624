"""Long texts into passages: by headings, paragraphs and sentences, each within the window of the encoder."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import PurePosixPath
from typing import Any

from knowgap.errors import ValueOutOfBounds
from knowgap.retrieval.documents.conversion import Text
from knowgap.retrieval.documents.sections import (
    Section,
    find_blocks,
    find_sections,
    last_sentence,
    number_at,
    table_header,
    unwrap,
)
from knowgap.retrieval.documents.sources import Source
from knowgap.retrieval.passage import Passage, part_id
from knowgap.retrieval.window import Window, embedded_window

PASSAGE_TOKENS = 256
"""Tokens of a passage at most, with its title and the marks of the encoder; less where the encoder reads less."""

_SMALLEST = 32
_CHARACTERS_PER_TOKEN = 12  # a passage with more is cut there: a long string without spaces may be a single token
_BLOCK = 32  # characters a token: a block of a long text has about eight passages
_QUICK = 3  # bytes a token has on average, at least, in most languages


@dataclass(frozen=True)
class Piece:
    """A passage, and where its text stands in the text that was split."""

    passage: Passage
    start: int
    end: int


class Splitter:
    """Splits texts into passages of a limited number of tokens.

    Args:
        window: of the encoder that the passages are for; None stands for the embedded encoder's, with which the tokens
            of a short text are not counted.
        tokens: a passage has at most so many, from 32; less where the window is smaller.
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
        """The pieces of a passage, with its title each; the passage itself if it fits."""
        if self.fits(passage):
            return [Piece(passage, 0, len(passage.text))]
        title, above = self._title([passage.title]), ""
        if title != passage.title and self._count(passage.title) > self.limit // 2:
            above = f"{passage.title}\n\n"  # what does not fit into a title is text
        else:
            title = passage.title
        pieces = self._cut(title, above + unwrap(passage.text), -len(above), markdown=False)
        return self._numbered(passage.id, ((title, text, max(0, at), max(0, end)) for title, text, at, end in pieces))

    def split_file(
        self, file: str, text: Text, *, markdown: bool, unit: str, by_name: bool = False
    ) -> list[tuple[Piece, Source]]:
        """The passages of a file with their places.

        Args:
            file: its name, with the folders that it is in.
            text: what it says.
            markdown: whether headings become part of the titles.
            unit: what the numbers of its pages count: "page" or "slide".
            by_name: whether every title begins with the name of the file, even if one heading stands above all others.
        """
        name = text.title or PurePosixPath(file).stem
        if markdown:
            pieces = self._split_sections(name, text.text, by_name=by_name or bool(text.title))
        else:
            pieces = self._cut(self._title([name]), unwrap(text.text), 0, markdown=False)
        placed = []
        for piece in self._numbered(file, pieces):
            first, last = (number_at(text.pages, at) for at in (piece.start, max(piece.start, piece.end - 1)))
            placed.append((piece, Source(file, piece.start, piece.end, unit if first else "", first, last)))
        return placed

    def _split_sections(self, name: str, markdown: str, *, by_name: bool) -> Iterator[tuple[str, str, int, int]]:
        sections = find_sections(markdown)
        tops = {section.headings[0] for section in sections if section.headings}
        parts = [] if not by_name and len(tops) == 1 and not markdown[: sections[0].end].strip() else [name]
        for number, section in enumerate(sections):
            title = self._title(_distinct([*parts, *section.headings]))
            start = section.start
            if section.headings and section.headings[-1] not in title:
                start = section.heading_start
            if not markdown[start : section.end].strip():
                following = sections[number + 1] if number + 1 < len(sections) else None
                if not section.headings or (following is not None and self._repeats(section, following, parts)):
                    continue
                start = section.heading_start
            yield from self._cut(title, markdown[start : section.end], start, markdown=True)

    def _repeats(self, section: Section, following: Section, parts: list[str]) -> bool:
        """Whether the title of the section that follows has the heading of a section without a text."""
        below = following.headings[: len(section.headings)] == section.headings
        return below and section.headings[-1] in self._title(_distinct([*parts, *following.headings]))

    def _title(self, parts: list[str]) -> str:
        """A title of some parts, of which those in the middle, and then the end, are left out if it is too long."""
        parts = [" ".join(part.split()) for part in parts if part.strip()]
        for chosen in (parts, [*parts[:1], *parts[-1:]], parts[-1:]):
            title = " / ".join(_distinct(chosen))
            if self._count(title) <= self.limit // 4 and len(title) <= self.limit:
                return title
        return title[: self.limit // 4].rpartition(" ")[0] or title[: self.limit // 8]

    def _cut(self, title: str, text: str, offset: int, *, markdown: bool) -> Iterator[tuple[str, str, int, int]]:
        """Title, text, start and end of the passages of a section, which begins at `offset`."""
        marked = self._count(f"{title}: x") if title else self._count("x")
        if len(text) <= _CHARACTERS_PER_TOKEN * self.limit and marked + self._count(text) <= self.limit:
            start, end = _stripped(text, 0, len(text))
            if start < end:
                yield title, _tidy(text[start:end]), offset + start, offset + end
            return
        header = max((len(table_header(text, at.start())) for at in re.finditer(r"^\|", text, re.M)), default=0)
        slack = max(self._overlap, min(header // 2, self.limit // 3) if markdown else 0)
        capacity = max(_SMALLEST // 2, (self.limit - marked - slack) // 8 * 8)
        last = 0
        for first, end in self._chunks(text, capacity, markdown):
            start, prefix = first, ""
            if first and markdown:
                prefix = table_header(text, first)
            if first and not prefix:
                start = self._overlapping(text, last, first)
            body = _tidy(prefix + text[start:end])
            if self._count(f"{title}: {body}" if title else body) > self.limit:
                start, body = first, _tidy(text[first:end])
            last = first
            yield title, body, offset + start, offset + end

    def _overlapping(self, text: str, previous: int, first: int) -> int:
        """Where a passage begins so that it repeats the last sentence before it, or the last words of a long one."""
        start = last_sentence(text, max(previous, first - 6 * self._overlap), first)
        words = [match.start() for match in re.finditer(r"(?<!\S)\S", text[start:first])]
        for place in (words[0], words[-self._overlap // 3]) if len(words) > self._overlap // 3 else words[:1]:
            if self._count(text[start + place : first]) - self._window.marks <= self._overlap:
                return start + place
        return first

    def _chunks(self, text: str, capacity: int, markdown: bool) -> Iterator[tuple[int, int]]:
        """Start and end of the pieces of a text, without what is white space between them."""
        splitter = _chunker(self._window.tokenizer, capacity, markdown)
        longest = _CHARACTERS_PER_TOKEN * self.limit
        for start, end in find_blocks(text, _BLOCK * self.limit):
            for at, chunk in splitter.chunk_indices(text[start:end]):
                for place in range(0, len(chunk), longest):
                    first, last = _stripped(chunk, place, min(len(chunk), place + longest))
                    if first < last:
                        yield start + at + first, start + at + last

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
    """Parts of a title without those that the next one repeats."""
    return [part for n, part in enumerate(parts) if n + 1 == len(parts) or part.casefold() != parts[n + 1].casefold()]


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """The range without white space at its beginning and end."""
    part = text[start:end].lstrip()
    return end - len(part), end - len(part) + len(part.rstrip())


def _tidy(text: str) -> str:
    """A text without spaces at line ends and without several blank lines together."""
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t\r\f\v]+(?=\n)", "", text.replace("\r\n", "\n"))).strip()
