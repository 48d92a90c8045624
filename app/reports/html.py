"""The few pieces of HTML that reports are made of. Text is escaped by construction: it only ever enters as a node."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree.ElementTree import Element, tostring

from knowgap.reports.style import CSS

__all__ = [
    "Child",
    "bars",
    "disclosure",
    "el",
    "facts",
    "intervals",
    "note",
    "p_value",
    "page",
    "section",
    "table",
    "tile",
]

Child = Element | str | int | float | None | Iterable[Any]

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def el(tag: str, *children: Child, **attributes: Any) -> Element:
    """An element.

    Args:
        tag: its name.
        *children: elements, text, numbers, iterables of these; None is left out.
        **attributes: `class_` is `class`, other underscores are hyphens; None is left out.
    """
    element = Element(tag)
    for name, value in attributes.items():
        if value is not None:
            element.set("class" if name == "class_" else name.replace("_", "-"), _clean(value))
    _extend(element, children)
    return element


def _extend(element: Element, children: Iterable[Any]) -> None:
    for child in children:
        if child is None:
            continue
        if isinstance(child, Element):
            element.append(child)
        elif isinstance(child, (str, int, float)):
            text = _clean(child)
            if len(element):
                element[-1].tail = (element[-1].tail or "") + text
            else:
                element.text = (element.text or "") + text
        else:
            _extend(element, child)


def _clean(value: Any) -> str:
    return _UNPRINTABLE.sub("\ufffd", str(value))


def page(title: str, lead: Sequence[Child], sections: Sequence[Element]) -> str:
    """A whole page, which needs nothing from outside and may not fetch anything.

    Args:
        title: of the window and the page.
        lead: what stands before the sections.
        sections: made by `section`.
    """
    contents = [el("a", part.findtext("h2"), href=f"#{part.get('id')}") for part in sections]
    html = el(
        "html",
        el(
            "head",
            el("meta", charset="utf-8"),
            el("meta", name="viewport", content="width=device-width, initial-scale=1"),
            el("meta", **{"http-equiv": "Content-Security-Policy"}, content=_POLICY),
            el("title", title),
            el("style", CSS),
        ),
        el(
            "body",
            el("a", "To the content", class_="skip", href="#content"),
            el("header", el("h1", title), *lead),
            el("nav", *contents, aria_label="Sections") if len(sections) > 1 else None,
            el("main", *sections, id="content"),
            el("footer", "Made by knowgap. This page holds all its data and loads nothing."),
        ),
        lang="en",
    )
    return "<!doctype html>\n" + tostring(html, encoding="unicode", method="html") + "\n"


def section(title: str, name: str, *children: Child) -> Element:
    """A section with its heading, under an anchor."""
    return el("section", el("h2", title), *children, id=name)


def note(*children: Child, kind: str = "note") -> Element:
    """A remark; of kind "warning" one that must not be overlooked."""
    return el("p", *children, class_=kind)


def tile(name: str, value: Child, *details: Child) -> Element:
    """One figure of importance with what belongs to it."""
    return el(
        "div", el("div", name, class_="name"), el("div", value, class_="value"), el("div", *details), class_="tile"
    )


def facts(rows: Iterable[tuple[str, Child]]) -> Element:
    """Names and values, those without a value left out."""
    return el("dl", *(el("div", el("dt", name), el("dd", value)) for name, value in rows if value not in ("", None)))


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Child]], *, caption: str, numeric: Sequence[int] = ()
) -> Element:
    """A table that scrolls by itself where the window is narrow.

    Args:
        columns: their heads.
        rows: the first cell of each is its head.
        caption: what the table shows.
        numeric: positions of the columns that are set right.
    """
    right = dict.fromkeys(numeric, "number")
    head = el("tr", *(el("th", name, scope="col", class_=right.get(n)) for n, name in enumerate(columns)))
    body = [
        el(
            "tr",
            el("th", row[0], scope="row"),
            *(el("td", cell, class_=right.get(n)) for n, cell in enumerate(row[1:], start=1)),
        )
        for row in rows
    ]
    inner = el("table", el("thead", head), el("tbody", *body))
    scrolling = el("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)
    return el("figure", el("figcaption", caption), scrolling)  # a caption inside would scroll with the table


def disclosure(summary: Child, *children: Child, class_: str | None = None) -> Element:
    """Something that opens on demand."""
    return el("details", el("summary", summary), *children, class_=class_)


def bars(rows: Sequence[tuple[str, float, str]], *, caption: str) -> Element:
    """Horizontal bars: name, value (not negative), and the value in words."""
    most = max((value for _, value, _ in rows), default=0.0) or 1.0
    lines = [
        el(
            "li",
            el("span", name, class_="name"),
            el("span", el("span", class_="bar", style=f"width:{100 * value / most:.2f}%"), class_="track"),
            el("span", shown, class_="shown"),
        )
        for name, value, shown in rows
    ]
    return el("figure", el("figcaption", caption), el("ul", *lines, class_="bars"))


def intervals(rows: Sequence[tuple[str, float, float, float, str]], *, caption: str, zero: bool = False) -> Element:
    """Means with their intervals on one scale.

    Args:
        rows: name, mean, lower end, upper end, and the same in words.
        caption: what is shown.
        zero: the scale is centred on 0, which is marked; from 0 to 1 otherwise.
    """
    reach = max((max(abs(low), abs(high)) for _, _, low, high, _ in rows), default=0.0) or 1.0
    left, right = (-reach, reach) if zero else (0.0, max(1.0, reach))

    def place(value: float) -> float:
        return 100 * (value - left) / (right - left)

    lines = [
        el(
            "li",
            el("span", name, class_="name"),
            el(
                "span",
                el("span", class_="zero", style=f"left:{place(0):.2f}%") if zero else None,
                el("span", class_="range", style=f"left:{place(low):.2f}%;width:{place(high) - place(low):.2f}%"),
                el("span", class_="dot", style=f"left:{place(mean):.2f}%"),
                class_="track",
            ),
            el("span", shown, class_="shown"),
        )
        for name, mean, low, high, shown in rows
    ]
    ends = "" if zero else f" (scale from {left:g} to {right:g})"
    return el("figure", el("figcaption", caption + ends), el("ul", *lines, class_="bars"))


def p_value(value: float) -> str:
    """A p-value in words: none is nought."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
