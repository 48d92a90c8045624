"""Reads a page, and fails on one that is not well-formed or needs anything from outside."""

import re
import xml.etree.ElementTree as ET

LOADING = {"script", "link", "img", "iframe", "object", "embed", "base", "form"}


class Page:
    """What stands on a page."""

    def __init__(self, html: str):
        self.root = ET.fromstring(html.removeprefix("<!doctype html>\n"))
        self.body = next(self.root.iter("body"), self.root)
        rows = [list(table.iter("tr")) for table in self.body.iter("table")]
        self.tables = [[[read_text(cell) for cell in row] for row in each] for each in rows]

    @property
    def text(self) -> str:
        return read_text(self.body)

    def having(self, tag: str, name: str) -> list[ET.Element]:
        return [element for element in self.body.iter(tag) if name in element.get("class", "").split()]

    def table(self, head: str) -> list[list[str]]:
        return next(rows for rows in self.tables if any(head in cell for cell in rows[0]))


def read_text(element: ET.Element) -> str:
    return " ".join(" ".join(element.itertext()).split())


def read_page(html: str, *, script: bool = False) -> Page:
    """Read a page and make sure that it stands alone; it may have a script of its own, if `script` says so."""
    assert html.startswith("<!doctype html>\n")
    page = Page(html)
    assert not (LOADING - {"script" if script else ""}) & {element.tag for element in page.root.iter()}
    assert not any(element.get("src") for element in page.root.iter("script"))
    ids = [element.attrib["id"] for element in page.root.iter() if "id" in element.attrib]
    assert len({*ids}) == len(ids)
    for element in page.root.iter():
        for name, value in element.attrib.items():
            assert not name.startswith("on"), (element.tag, name)
            if name in ("href", "src", "action", "data", "srcset", "xlink:href"):
                assert value in {f"#{each}" for each in ids}, (element.tag, value)
            assert name != "style" or re.fullmatch(r"(left|width):[\d.]+%(;width:[\d.]+%)?", value)
    assert not re.search(r"url\(|@import", "".join(page.root.find("head").itertext()))
    policy = page.root.find("head/meta[@http-equiv='Content-Security-Policy']")
    allowed = r"; script-src 'sha256-[\w+/]+='" if script else ""
    assert re.fullmatch(f"default-src 'none'; style-src 'unsafe-inline'{allowed}", policy.get("content"))
    return page
