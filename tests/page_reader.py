"""Reads a page as a browser would, and fails on one that is malformed or needs anything from outside."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "input"}
LOADING = {"script", "link", "img", "iframe", "object", "embed", "base", "form"}


class Page(HTMLParser):
    """What stands on a page: its tags with attributes, its text, and its tables."""

    def __init__(self, html: str):
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.feed(html)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)
        if {"td", "th"} & {*self.open}:
            row = self.tables[-1][-1]
            row[-1] = " ".join(f"{row[-1]} {data}".split())

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def having(self, tag: str, name: str) -> list[dict[str, str | None]]:
        return [a for t, a in self.tags if t == tag and name in (a.get("class") or "").split()]

    def table(self, head: str) -> list[list[str]]:
        return next(rows for rows in self.tables if any(head in cell for cell in rows[0]))


def read_page(html: str) -> Page:
    """Read a page and make sure that it is well-formed and stands alone."""
    assert html.startswith("<!doctype html>\n")
    page = Page(html)
    assert not LOADING & {tag for tag, _ in page.tags}
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len({*ids}) == len(ids)
    for tag, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            if name in ("href", "src", "action", "data", "srcset", "xlink:href"):
                assert (value or "").startswith("#"), (tag, value)
                assert (value or "")[1:] in ids
            assert name != "style" or re.fullmatch(r"(left|width):[\d.]+%(;width:[\d.]+%)?", value or "")
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    policies = [a["content"] for tag, a in page.tags if tag == "meta" and "http-equiv" in a]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]
    return page
