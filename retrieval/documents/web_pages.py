"""Conversion of HTML to Markdown, without navigation, scripts and hidden elements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import Any

from knowgap.retrieval.documents.text import Text, joined, without_private

_HIDDEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE)
_ROLES = ["navigation", "search", "contentinfo"]
_NAMED = re.compile(r"(?:^|[-_])(?:nav\w*|menu|breadcrumbs?|sidebar|sphinxsidebar|toc|related|footer)(?:-panel)?\d*$")
_NOT_IN_CELLS = ["table", "h1", "h2", "h3", "pre"]  # a table that contains one of them only lays out a page
_PERMALINK = {"¶", "#", "§", "🔗", "↑"}
_BLOCKS = "address aside blockquote center dd details dialog dl dt fieldset figure footer form header hgroup main menu"
_BLOCKS += " nav search summary"  # of which markdownify would join most to what follows
_PARTING = f"{_BLOCKS} article dir div figcaption h1 h2 h3 h4 h5 h6 hr li ol p pre section table ul"
_WIDEST = 1000  # columns of a merged cell, as in browsers
_SHORT = 400  # the most characters of a bar of navigation or a footer by its name


def read_html(content: str) -> Text:
    """Convert a page to Markdown; links, pictures, quotations, definition lists and emphasis become plain text.

    Merged cells of a table are repeated in each place that they cover. Permalinks, navigation and the page's footer are
    left out.
    """
    from bs4 import BeautifulSoup
    from bs4.element import Declaration, ProcessingInstruction

    soup = BeautifulSoup(content, "lxml")
    title = _words(soup.title) if soup.title else ""
    if styled := soup.find("p", class_="word-title"):  # in the style "Title" of a Word file
        title = _words(styled.extract())
    never = ["script", "style", "template", "title", "hr"]
    for element in (*soup(never), *soup(style=_HIDDEN), *soup(hidden=True)):
        element.decompose()
    for picture in soup("img"):
        picture.replace_with(str(picture.get("alt") or ""))
    for declaration in soup(string=lambda text: isinstance(text, (Declaration, ProcessingInstruction))):
        declaration.extract()
    for link in soup("a"):
        if link.get_text(strip=True) in _PERMALINK:
            link.decompose()
    named = [*soup(["nav", "footer"]), *soup(role=_ROLES), *soup(class_=_NAMED), *soup(id=_NAMED)]
    named += [link.parent for link in soup("a", rel=["next", "prev", "up"]) if link.parent]
    for element in filter(_leads_around, named):
        element.extract()
    for table in soup("table"):
        if caption := table.caption:
            caption.name = "p"
            table.insert_before(caption.extract())
        if table.find(_NOT_IN_CELLS) is not None:
            cells = table(["tr", "td", "th", "tbody", "thead"])
            for element in [table, *(cell for cell in cells if cell.find_parent("table") is table)]:
                element.name = "div"
        elif any(cell.get("rowspan") or cell.get("colspan") for cell in table(["td", "th"])):
            _spread_out(table, soup)
    text, title = (without_private(each).replace("\xa0", " ").strip() for each in (_markdown(soup), title))
    return Text(text, title, markdown=True)


def _spread_out(table: Any, soup: Any) -> None:
    """Put each cell of a table with merged cells into all of its places, and join the rows of names."""
    cells = [row(["td", "th"]) for row in table("tr")]
    heads = next((n for n, row in enumerate(cells) if any(cell.name == "td" for cell in row)), 0) or 1
    grid = spread([[_cell(cell) for cell in row] for row in cells])
    table.clear()
    for texts in [joined(grid[:heads]), *grid[heads:]]:
        row = soup.new_tag("tr")
        row.extend(soup.new_tag("td", string=text) for text in texts)
        table.append(row)


def _cell(cell: Any) -> tuple[str, int, int]:
    """The text of a cell, and how many rows and columns it covers."""
    spans = (str(cell.get(name, 1)) for name in ("rowspan", "colspan"))
    down, across = (int(span) if span.isdecimal() and len(span) < 10 else 1 for span in spans)
    return _words(cell), down or 10_000, across or 1  # 0 rows are all that follow


def _words(element: Any) -> str:
    """The text of an element in one line; blocks and line breaks part words, and emphasis does not."""
    for parting in element(["br", "td", "th", *_PARTING.split()]):
        parting.insert(0, " ")
        parting.append(" ")
    return " ".join(element.get_text().split())


def spread(rows: Sequence[Sequence[tuple[str, int, int]]]) -> list[list[str]]:
    """The grid of a table: a merged cell is repeated in each place that it covers, so that no cell moves."""
    places: dict[tuple[int, int], str] = {}
    for row, cells in enumerate(rows):
        column = 0
        for text, down, across in cells:
            while (row, column) in places:
                column += 1
            below, beside = range(row, min(row + down, len(rows))), range(column, column + min(across, _WIDEST))
            for place in product(below, beside):
                places.setdefault(place, text)
    width = 1 + max((column for _, column in places), default=-1)
    return [[places.get((row, column), "") for column in range(width)] for row in range(len(rows))]


def _markdown(soup: Any) -> str:
    from markdownify import ATX, MarkdownConverter

    for block in soup([*_BLOCKS.split(), "label", "legend", "option"]):
        block.name = "div"
    converter = MarkdownConverter(
        heading_style=ATX,
        strip=["a", "b", "strong", "i", "em"],
        escape_misc=False,
        escape_asterisks=False,
        escape_underscores=False,
        table_infer_header=True,
        wrap=True,
        wrap_width=None,
    )
    return converter.convert_soup(soup)


def _leads_around(element: Any) -> bool:
    """Whether an element with a name, a role or links of navigation is that, or is the footer of the page."""
    if element.name == "footer":
        return element.find_parent(["article", "blockquote", "figure", "section"]) is None
    if element.name == "nav" or element.get("role") in _ROLES:
        return True
    letters = len(element.get_text("", strip=True))
    if 2 * sum(len(link.get_text("", strip=True)) for link in element("a", href=True)) >= letters:
        return True
    is_bar = re.search("nav|foot", " ".join(map(str, [*element.get_attribute_list("class"), element.get("id")])))
    return is_bar is not None and letters <= _SHORT and element.find(["footer", "h1", "h2", "h3", "p", "pre"]) is None
