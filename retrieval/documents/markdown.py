"""Clean-up of Markdown, its headings and tables, and the headings of plain text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

from knowgap.retrieval.documents.text import Heading, Table, Text, line_starts

_FRONT = re.compile(r"\A---[ \t]*\n((?:#[^\n]*\n)*[\"']?[\w.-]+[\"']?:(?=\s).*?)\n(?:---|\.\.\.)[ \t]*\n", re.DOTALL)
_TITLE = re.compile(  # on its line, or on the indented lines below
    r"^title:[ \t]*(?:[>|][+-]?[ \t]*\n\s+)?[\"']*([^\s\"'].*?)[\"']*[ \t]*$(?!\n[ \t]+\S)", re.MULTILINE | re.DOTALL
)
_COMMENT = re.compile(r"^(?:[ \t]*<!--[^-]*(?:-(?!->)[^-]*)*-->)+[ \t]*$", re.MULTILINE)
_FENCED = re.compile(r"^ {0,3}(```+(?![^\n]*`)|~~~+).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_PICTURE = re.compile(r"!\[([^\[\]]*)\](?:\((?:[^()]|\([^()]*\))*\)|\[[^\[\]]*\])")
_TARGET = re.compile(  # with a path or address, or with nothing but the space before a picture that was left out
    r"^[ \t]*\[([^\[\]]+)\]:(?:[ \t]+|[ \t]*(?=\S*(?:[/#]|\.[a-zA-Z]|:\S))<?(\S*?)>?(?:[ \t]+[\"'(].*)?[ \t]*)$",
    re.MULTILINE,
)
_REFERENCE = re.compile(r"(?<![\\\]])\[([^\[\]]+)\](?:\[([^\[\]]*)\]|(?![\[(:]))")
_LEADING = re.compile(r"\s*(?:[-*+]|\d+\.)\s+\[.*?\]\(#[^)]*\)\s*$|\([\w .-]+\)=\s*$")
_EMPTY_CONTENTS = re.compile(r"^#+ (?:table of )?contents *\n\s*(?=#)", re.IGNORECASE | re.MULTILINE)
_ESCAPED = re.compile(r"(`+).+?\1|\\([_*\[\]<>.!+~&-])")  # code, in which nothing is escaped, or an escaped sign
_PADDED = re.compile(r"(---)-+|( ) +")
_MARKED = re.compile(r"(`+|\*{1,3}|_{2,3})(\S|\S.*?\S)\1")
_SPACED = re.compile(r"\s{3}")
_INDENTED = ("    ", "\t")  # a line of code, or of a list within a list


def read_markdown(source: str) -> Text:
    """Remove front matter, comments, pictures, and lists of links to the file's own headings from Markdown.

    The targets of links that stand apart from them are put into the links if they are web addresses, and removed
    otherwise. Outside of code, escaped characters are unescaped, and padding is removed from the rows of tables. The
    title is taken from the front matter.
    """
    title = ""
    if front := _FRONT.match(source):
        found = _TITLE.search(front[1])
        source, title = source[front.end() :], " ".join(found[1].split()) if found else ""
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
        if _LEADING.match(line):
            continue
        if not line.startswith(_INDENTED):
            line = _ESCAPED.sub(lambda found: found[2] or found[0], line)
        kept.append(_PADDED.sub(r"\1\2", line) if line.startswith("|") else line)
    return _EMPTY_CONTENTS.sub("", "\n".join(kept))


def find_blocks(text: str, *, plain: bool = False) -> tuple[list[Heading], list[Table]]:
    """The headings and the tables of Markdown, in order, without headings in lists and quotations.

    In plain text they are the lines with a line of equal signs or hyphens below, which is about as long.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table").disable(["inline", "html_block"])
    parser = MarkdownIt("zero").enable("lheading").disable("inline") if plain else parser
    lines = text.replace("\r", " ").split("\n")
    starts, headings, tables = line_starts(lines), list[Heading](), list[Table]()
    blocks = parser.parse("\n".join(lines))
    for block, following in itertools.pairwise(blocks):
        first, last = block.map or (0, 0)
        start, end = starts[first], min(starts[last], len(text))
        if block.type == "heading_open" and block.level == 0:
            *above, words = following.content.split("\n")
            rule = lines[last - 1].strip()
            is_apart = not plain or (len(rule) >= 0.8 * len(words) and not _SPACED.search(words))
            if is_apart and above in ([], [rule]):  # such a line above a heading, too, puts it over the others
                level = int(block.tag[1]) + (plain and not above)
                headings.append(Heading(level, _MARKED.sub(r"\2", words), start, end))
        elif block.type == "table_open":
            tables.append(Table(start, end, "".join(f"{line}\n" for line in lines[first : first + 2])))
    return headings, tables
