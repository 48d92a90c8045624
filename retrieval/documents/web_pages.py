"""Conversion of HTML to Markdown, without navigation, scripts and hidden elements."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

from knowgap.retrieval.documents.tables import Cell, joined, markdown, spread
from knowgap.retrieval.documents.text import Text

_HIDDEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE)
_ROLES = ["navigation", "search", "contentinfo"]
_BLOCKS = ["div", "table", "ul", "ol", "p", "dl", "header", "section", "td"]
_NAMED = re.compile(
    r"(?:^|[-_])(?:nav|navbar|navheader|navfooter|navigation|menu|breadcrumbs?|sidebar|sphinxsidebar|toc|related|footer)\d*$"
)
_NOT_IN_CELLS = ["table", "h1", "h2", "h3", "pre"]  # a table that contains one of them lays out a page
_STEP = re.compile(r"\W*(?:next|prev|previous|up|home|contents|index|top|back)\b", re.IGNORECASE)
_STEPS = {"next", "prev", "previous", "up", "index", "contents", "start", "home", "top"}
_PERMALINK = {"¶", "#", "§", "🔗", "↑"}
_SHORT = 400  # the most characters of a bar with "next" and "previous"
_LEVELS = 8  # how many elements around a link are examined
_LINKED = 0.8  # the least share of letters in links of an element that is a list of links


def read_html(content: str) -> Text:
    """Convert a page to Markdown; links, pictures, quotations, definition lists and emphasis become plain text.

    Merged cells of a table are repeated in each place that they cover. Permalinks are left out. Navigation, the page's
    footer, and lists of links to the page's own headings are left out unless nothing else is on the page.

    Raises:
        RecursionError: it is nested too deeply.
    """
    from bs4 import BeautifulSoup
    from bs4.element import Declaration, ProcessingInstruction

    soup = BeautifulSoup(content, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    if styled := soup.find("p", class_="word-title"):  # in the style "Title" of a Word file
        title = styled.extract().get_text(" ", strip=True)
    unseen = [
        *soup(["script", "style", "template", "head", "title", "hr"]),
        *soup(style=_HIDDEN),
        *soup(hidden=_not_found),
    ]
    for element in unseen:
        element.decompose()
    for picture in soup("img"):
        picture.replace_with(str(picture.get("alt") or ""))
    for declaration in soup(string=lambda text: isinstance(text, (Declaration, ProcessingInstruction))):
        declaration.extract()
    for link in soup("a"):
        if link.get_text(strip=True) in _PERMALINK:
            link.decompose()
    leading = {id(element): element for element in _candidates(soup) if _leads_around(element)}
    texts = (text for text in soup(string=True) if text.strip())
    if any(not any(id(parent) in leading for parent in text.parents) for text in texts):
        for element in leading.values():
            element.decompose()
    tables: list[str] = []
    for table in soup("table"):
        if table.find(_NOT_IN_CELLS) is not None:
            _dissolve(table)
        elif any(cell.get("rowspan") or cell.get("colspan") for cell in table(["td", "th"])):
            place = soup.new_tag("p")
            place.string = f"\ue000{len(tables)}\ue000"  # no page has such characters: they are dropped
            tables.append(_spread_out(table))
            table.replace_with(place)
    text = re.sub("\ue000(\\d+)\ue000", lambda found: tables[int(found[1])], _markdown(soup))
    return Text(text.replace("\xa0", " ").strip(), title.replace("\xa0", " "), markdown=True)


def _spread_out(table: Any) -> str:
    """The Markdown of a table with merged cells, in which each cell is in all of its places."""
    rows = [row(["td", "th"]) for row in table("tr")]
    grid = spread([[_cell(cell) for cell in row] for row in rows])
    heads = next((n for n, row in enumerate(rows) if any(cell.name == "td" for cell in row)), 0) or 1
    caption = f"{table.caption.get_text(' ', strip=True)}\n\n" if table.caption else ""
    return caption + markdown([joined(grid[:heads]), *grid[heads:]])


def _cell(cell: Any) -> Cell:
    spans = (str(cell.get(name, 1)) for name in ("rowspan", "colspan"))
    down, across = (int(span) if span.isdecimal() and len(span) < 10 else 1 for span in spans)
    return cell.get_text(" ", strip=True), down or 10_000, across or 1  # 0 rows are all that follow


def _markdown(soup: Any) -> str:
    from markdownify import ATX, MarkdownConverter

    for block in soup(["blockquote", "dl", "dt", "dd"]):
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


def _not_found(hidden: str | None) -> bool:
    """Whether a value of the attribute `hidden` hides an element; "until-found" does not, since a search shows it."""
    return hidden is not None and hidden.strip().lower() != "until-found"


def _dissolve(table: Any) -> None:
    """Turn the cells of a table that only lays out a page into blocks."""
    cells = [each for each in table(["tr", "td", "th", "tbody", "thead"]) if each.find_parent("table") is table]
    for element in [table, *cells]:
        element.name = "div"


def _is_step(link: Any) -> bool:
    """Whether a link leads to the next or previous page, the index or the like."""
    return not _STEPS.isdisjoint(link.get_attribute_list("rel")) or bool(_STEP.match(link.get_text()))


def _candidates(soup: Any) -> list[Any]:
    """The elements that may be navigation: those with such a name or role, and the blocks around links."""
    found = {
        id(each): each
        for each in [*soup(["nav", "footer"]), *soup(role=_ROLES), *soup(class_=_NAMED), *soup(id=_NAMED)]
    }
    for link in soup("a", href=True):
        found |= {id(each): each for each in islice(link.parents, _LEVELS) if each.name in _BLOCKS}
    return list(found.values())


def _leads_around(element: Any) -> bool:
    """Whether an element is navigation between or within pages, or the footer of the page."""
    if element.name == "nav" or element.get("role") in _ROLES:
        return True
    if element.name == "footer":
        return element.find_parent(["article", "blockquote", "figure", "section"]) is None
    names = [*element.get_attribute_list("class"), element.get("id"), element.name]
    named = any(_NAMED.search(str(name)) for name in names if name)
    links = element("a", href=True)
    if not links and not named:
        return False
    letters = len(element.get_text("", strip=True))
    if named and "footer" in " ".join(map(str, filter(None, names))).lower():
        return letters <= _SHORT and element.find("footer") is None and not element.find(["h1", "h2", "h3", "p", "pre"])
    linked = sum(len(link.get_text("", strip=True)) for link in links)
    if letters <= _SHORT and (named or linked >= letters / 3) and sum(map(_is_step, links)) > 1:
        return True
    if named:
        return linked >= letters / 2
    inside = [link for link in links if str(link["href"]).startswith("#")]
    return len(links) > 2 and len(inside) == len(links) and linked >= _LINKED * letters
