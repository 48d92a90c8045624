"""The text and headings of reStructuredText."""

from __future__ import annotations

import re

from knowgap.retrieval.documents.text import Heading, Text, line_starts

_ROLE = re.compile(r"``(.+?)``|(?::[\w:.+-]+:)?`([^`<>]+?)(?:\s*<[^`<>]+>)?`_{0,2}|[ ]?\[(?:#\w*|\*)\]_")
_LEADING = re.compile(
    r"( *)\.\. (?:toctree|contents|sectnum|index|highlight|currentmodule|meta|(?:\|[^|]+\| )?image)::",
    re.IGNORECASE,
)
_TARGET = re.compile(r" *\.\. _[^:]+:.*$|__ .*$|:orphan:\s*$")
_QUIET = {
    "report_level": 5,
    "halt_level": 5,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "_disable_config": True,
    "doctitle_xform": False,
    "syntax_highlight": "none",
}


def read_restructured(text: str) -> Text:
    """Remove tables of contents, images, targets and roles from the source, and find its headings with docutils.

    If docutils is not installed, the source is read as plain text without headings, and a note says so.
    """
    try:
        from docutils import nodes
        from docutils.core import publish_doctree
    except ImportError:
        return Text(text, note="is read without its headings, which need `pip install 'knowgap[documents]'`")
    lines = _cleaned(text.replace("\r\n", "\n").split("\n"))
    source, starts, headings, at = "\n".join(lines), line_starts(lines), [], 0
    for section in publish_doctree(source, settings_overrides=_QUIET).findall(nodes.section):
        title, level, above = section[0], 0, section
        while isinstance(above, nodes.section):
            level, above = level + 1, above.parent
        wanted = (title.rawsource or title.astext()).strip()
        found = next(
            (n for n in range(at, len(lines) - 1) if lines[n].strip() == wanted and _is_rule(lines[n + 1])), None
        )
        if found is None:
            continue
        over = found > 0 and _is_rule(lines[found - 1]) and lines[found - 1].strip() == lines[found + 1].strip()
        end = min(len(source), starts[found + 2])
        headings.append(Heading(min(6, level), title.astext(), starts[found - over], end))
        at = found + 2
    return Text(source, headings=headings)


def _spoken(found: re.Match[str]) -> str:
    """The text that replaces a literal, a role or a footnote reference."""
    return f"`{found[1]}`" if found[1] else (found[2] or "")


def _is_rule(line: str) -> bool:
    line = line.strip()
    return len(line) > 1 and not line[0].isalnum() and line == line[0] * len(line)


def _cleaned(lines: list[str]) -> list[str]:
    """Remove directives and targets that only serve navigation, and replace roles and links by their text."""
    kept, inside = [], -1
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if inside >= 0 and (not line.strip() or indent > inside):
            continue
        inside = -1
        if leading := _LEADING.match(line):
            inside = len(leading[1])
        elif not _TARGET.match(line):
            kept.append(_ROLE.sub(_spoken, line).replace("\\ ", ""))
    return kept
