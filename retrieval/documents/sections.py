"""The structure of a text: sections under headings, tables, wrapped lines, and places at which a long text is cut."""

from __future__ import annotations

import itertools
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{3,})[ \t]*$")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_BULLET = re.compile(r"\s|[-*•–—]\s|\(?\w{1,3}[.)]\s")
_PARAGRAPH_END = re.compile(r"\n\s*")
_SENTENCE_END = re.compile(r"\n\s*|(?<=[.!?])[\"'”’)\]]*\s+|(?<=[。！？])")


@dataclass(frozen=True)
class Section:
    """The text from `start` to `end` under a heading, which begins at `heading_start`.

    `headings` are those above the text, from the highest level.
    """

    headings: tuple[str, ...]
    heading_start: int
    start: int
    end: int


def find_sections(markdown: str) -> list[Section]:
    """The sections of a Markdown text, in order; together with their headings they are the whole text."""
    sections: list[Section] = []
    above: list[tuple[int, str]] = []
    heading_start = start = 0
    for level, heading, first, after in _headings(markdown):
        sections.append(Section(tuple(text for _, text in above), heading_start, start, first))
        above = [*(upper for upper in above if upper[0] < level), (level, heading)]
        heading_start, start = first, after
    sections.append(Section(tuple(text for _, text in above), heading_start, start, len(markdown)))
    return sections


def _headings(markdown: str) -> Iterator[tuple[int, str, int, int]]:
    """Level, text, start and end of each heading; in a block of code there are none."""
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
            yield len(heading[1]), heading[2].strip(), start, position
            above, above_alone = "", True
            continue
        if above.strip() and above_alone and "|" not in above and (rule := _UNDERLINE.match(bare)):
            yield (1 if rule[1][0] == "=" else 2), above.strip(), above_start, position
            above, above_alone = "", True
            continue
        above_alone = not above.strip()
        above, above_start = bare, start


def table_header(markdown: str, position: int) -> str:
    """The header of the table in whose rows a position is, with the rule below it; empty if it is in no table."""
    start = markdown.rfind("\n", 0, position) + 1
    end = markdown.find("\n", start)
    if not markdown[start : end if end >= 0 else None].lstrip().startswith("|"):
        return ""
    rule = ""
    while start > 0:
        end, start = start - 1, markdown.rfind("\n", 0, start - 1) + 1
        line = markdown[start:end].strip()
        if not line.startswith("|"):
            return ""
        if rule:
            return f"{line}\n{rule}\n"
        if _TABLE_RULE.match(line):
            rule = line
    return ""


def unwrap(text: str) -> str:
    """Replace by a space each line end at which a line was only wrapped; all positions stay what they are.

    A line was wrapped if it is nearly as wide as the wide lines of the text, and no blank line, indented line or item
    of a list follows.
    """
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


def find_blocks(text: str, size: int) -> list[tuple[int, int]]:
    """Where to cut a long text so that a later edit moves the cuts near it only; [(start, end)].

    A cut is before a paragraph (before a sentence, where paragraphs are long) whose own words choose it by their
    checksum, as in content-defined chunking (Muthitacharoen et al. 2001, "LBFS"). There are about `size` characters
    between two cuts, and no fewer than an eighth of it.
    """
    if len(text) <= 2 * size:
        return [(0, len(text))]
    ends = [match.end() for match in _PARAGRAPH_END.finditer(text)]
    if len(ends) < 4 * len(text) / size:
        ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    cuts = [0]
    for start, end in itertools.pairwise([*ends, len(text)]):
        checksum = zlib.crc32(text[start:end].encode("utf-8", "replace")) / 2**32
        if start - cuts[-1] >= size / 8 and checksum < (end - start) / size:
            cuts.append(start)
    return list(zip(cuts, [*cuts[1:], len(text)], strict=True))


def last_sentence(text: str, start: int, end: int) -> int:
    """Where the last sentence or line between two positions begins."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text, start, end) if match.end() < end]
    return ends[-1] if ends else start


def number_at(pages: list[tuple[int, int]], position: int) -> int:
    """The number of the page on which a position is; 0 if it is on none."""
    place = bisect_right(pages, position, key=lambda page: page[0]) - 1
    return pages[place][1] if place >= 0 else 0
