"""Clean-up of Markdown, its headings and tables, and the headings of plain text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

from knowgap.retrieval.documents.text import Heading, Table, Text, line_starts

_FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*\n", re.DOTALL)
_TITLE = re.compile(r"^title:[ \t]*[\"']?(.+?)[\"']?[ \t]*$", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*<!--.*?-->[ \t]*$", re.DOTALL | re.MULTILINE)
_FENCED = re.compile(r"^ {0,3}(```+|~~~+).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_PICTURE = re.compile(r"!\[([^\[\]]*)\](?:\((?:[^()]|\([^()]*\))*\)|\[[^\[\]]*\])")
_TARGET = re.compile(r"^[ \t]*\[([^\[\]]+)\]:[ \t]*<?(\S*?)>?(?:[ \t]+[\"'(].*)?[ \t]*$", re.MULTILINE)
_REFERENCE = re.compile(r"(?<![\\\]])\[([^\[\]]+)\](?:\[([^\[\]]*)\]|(?![\[(:]))")
_LEADING = re.compile(r"\s*(?:[-*+]|\d+\.)\s+\[.*?\]\(#[^)]*\)\s*$|\([\w .-]+\)=\s*$")
_OF_CONTENTS = re.compile(r" {0,3}#{1,6}\s+(?:table of )?contents\s*#*\s*$", re.IGNORECASE)
_ESCAPED = re.compile(r"(`+).+?\1|\\([_*\[\]<>.!+~&-])")  # code, in which nothing is escaped, or an escaped sign
_PADDED = re.compile(r"(---)-+|( ) +")
_MARKED = re.compile(r"(`+|\*{1,3}|_{2,3})(\S|\S.*?\S)\1")
_UNDERLINED = re.compile(
    r"(?:^(?P<over>[=~^*#+-]{3,})\s*?\n[ \t]*|\A|(?<=\n\n)|(?<=\n\r\n))"
    r"(?P<words>\w(?:(?!\s{3})[^\n]){0,99})\n(?P<rule>([=~^*#+-])\4{2,})[ \t\r]*(?:\n|\Z)",
    re.MULTILINE,
)
_INDENTED = ("    ", "\t")  # a line of code, or of a list within a list


def read_markdown(source: str) -> Text:
    """Remove front matter, comments, pictures, and lists of links to the file's own headings from Markdown.

    The targets of links that stand apart from them are put into the links if they are web addresses, and removed
    otherwise. Outside of code, escaped characters are unescaped, and padding is removed from the rows of tables. The
    title is taken from the front matter.
    """
    source, title = source.replace("\r\n", "\n"), ""
    if front := _FRONT.match(source):
        found = _TITLE.search(front[1])
        source, title = source[front.end() :], found[1] if found else ""
    targets = {name.casefold(): target for name, target in _TARGET.findall(_FENCED.sub("", source))}
    parts, end = list[str](), 0
    for block in _FENCED.finditer(source):
        parts += [_cleaned(source[end : block.start()], targets), block[0]]
        end = block.end()
    text = "".join([*parts, _cleaned(source[end:], targets)])
    return Text(text if text.strip() else source, title, markdown=True)


def _cleaned(text: str, targets: Mapping[str, str]) -> str:
    """Markdown without fenced code, cleaned as `read_markdown` says."""

    def link(found: re.Match[str]) -> str:
        target = targets.get((found[2] or found[1]).casefold())
        if target is None:
            return found[0]
        return f"[{found[1]}]({target})" if target.startswith("http") else found[1]

    text = _TARGET.sub("", _PICTURE.sub(r"\1", _COMMENT.sub("", text)))
    kept = list[str]()
    for line in (_REFERENCE.sub(link, text) if targets else text).split("\n"):
        if _LEADING.match(line) or _OF_CONTENTS.match(line):
            continue
        if not line.startswith(_INDENTED):
            line = _ESCAPED.sub(lambda found: found[2] or found[0], line)
        kept.append(_PADDED.sub(r"\1\2", line) if line.startswith("|") else line)
    return "\n".join(kept)


def find_blocks(markdown: str) -> tuple[list[Heading], list[Table]]:
    """The headings and the tables of Markdown, in order, without headings in lists and quotations."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table").disable(["inline", "html_block"])
    lines = markdown.replace("\r\n", " \n").replace("\r", "\n").split("\n")
    starts, headings, tables = line_starts(lines), list[Heading](), list[Table]()
    blocks = parser.parse("\n".join(lines))
    for block, following in itertools.pairwise(blocks):
        first, last = block.map or (0, 0)
        start, end = starts[first], min(starts[last], len(markdown))
        if block.type == "heading_open" and block.level == 0 and last - first <= 2:
            headings.append(Heading(int(block.tag[1]), _MARKED.sub(r"\2", following.content), start, end))
        elif block.type == "table_open":
            tables.append(Table(start, end, "".join(f"{line}\n" for line in lines[first : first + 2])))
    return headings, tables


def underlined_headings(text: str) -> list[Heading]:
    """The headings of plain text, which are underlined with equal signs, hyphens or the like.

    The line above is blank or the same as the underline. The levels of the kinds of underline follow the order in which
    they first appear.
    """
    levels: dict[str, int] = {}
    headings: list[Heading] = []
    for found in _UNDERLINED.finditer(text):
        over, words, rule = found["over"], found["words"].rstrip(), found["rule"]
        if over in (None, rule) and len(rule) >= 0.8 * len(words):
            level = levels.setdefault(f"{over and over[0]}{rule[0]}", len(levels) + 1)
            headings.append(Heading(min(6, level), words, *found.span()))
    return headings
