"""Charts as inline SVG: points over two axes, with a line through some of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from knowgap.reports.html import el

__all__ = ["Point", "scatter"]

_WIDE, _NARROW, _SMALL = (1040, 340), (350, 270), (300, 190)
_KINDS = {
    "complete": "complete trial",
    "pruned": "stopped early: the mean of the questions it was asked",
    "paper": "the paper's settings",
    "chosen": "chosen",
}


@dataclass(frozen=True)
class Point:
    """One mark.

    Attributes:
        x: in the units of the axis, or the position of a category.
        y: in the units of the axis.
        kind: "complete", "pruned", "paper" or "chosen"; later ones are drawn above earlier ones.
        label: what the mark says when it is pointed at.
    """

    x: float
    y: float
    kind: str
    label: str


def scatter(
    points: Sequence[Point],
    *,
    caption: str,
    x_name: str,
    y_name: str,
    line: Sequence[tuple[float, float]] = (),
    line_name: str = "",
    categories: Sequence[str] | None = None,
    small: bool = False,
    whole: bool = False,
) -> Element:
    """A figure of points over two axes.

    Args:
        points: at least one.
        caption: what is shown.
        x_name: name of the horizontal axis.
        y_name: name of the vertical axis.
        line: corners of a staircase through the points, from left to right.
        line_name: what the line means.
        categories: names of the positions 0, 1, … of the horizontal axis, where it is no number.
        small: one of many: without a legend, in one size for all windows.
        whole: the horizontal axis counts, and has no ticks between whole numbers.
    """

    def plot(size: tuple[int, int], name: str) -> Element:
        return _plot(points, size, name, caption, x_name, y_name, line, categories, whole)

    plots = [plot(_SMALL, "")] if small else [plot(_WIDE, "wide"), plot(_NARROW, "narrow")]
    legend = None if small else _legend([kind for kind in _KINDS if any(p.kind == kind for p in points)], line_name)
    return el("figure", el("figcaption", caption), legend, *plots)


def _plot(
    points: Sequence[Point],
    size: tuple[int, int],
    class_: str,
    caption: str,
    x_name: str,
    y_name: str,
    line: Sequence[tuple[float, float]],
    categories: Sequence[str] | None,
    whole: bool,
) -> Element:
    width, height = size
    left, right, top, bottom = 46, 12, 26, 40 if x_name else 22
    ys = [p.y for p in points] + [y for _, y in line]
    y_low, y_high = _padded(min(ys), max(ys))
    if categories is None:
        x_low, x_high = _padded(min(p.x for p in points), max(p.x for p in points))
        x_ticks = [(x, f"{x:g}") for x in _ticks(x_low, x_high, width // 75) if not whole or x == round(x)]
    else:
        x_low, x_high = -0.5, len(categories) - 0.5
        x_ticks = [(float(n), name) for n, name in enumerate(categories)]

    def px(x: float) -> float:
        return round(left + (x - x_low) / (x_high - x_low) * (width - left - right), 1)

    def py(y: float) -> float:
        return round(height - bottom - (y - y_low) / (y_high - y_low) * (height - top - bottom), 1)

    y_ticks = _ticks(y_low, y_high, max(3, height // 60))
    grid = [el("line", x1=left, x2=width - right, y1=py(y), y2=py(y), class_="axis") for y in y_ticks]
    texts = [el("text", f"{y:g}", x=left - 6, y=py(y) + 4, **{"text-anchor": "end"}) for y in y_ticks]
    texts += [el("text", name, x=px(x), y=height - bottom + 16, **{"text-anchor": "middle"}) for x, name in x_ticks]
    texts.append(el("text", y_name, x=4, y=12))
    texts.append(el("text", x_name, x=(left + width - right) / 2, y=height - 6, **{"text-anchor": "middle"}))
    path = _stairs([(px(x), py(y)) for x, y in line], width - right)
    order = list(_KINDS)
    marks = [_mark(px(p.x), py(p.y), p.kind, p.label) for p in sorted(points, key=lambda p: order.index(p.kind))]
    base = el("line", x1=left, x2=width - right, y1=height - bottom, y2=height - bottom, class_="axis")
    return el(
        "svg",
        *grid,
        base,
        *texts,
        el("path", d=path, class_="trail") if path else None,
        *marks,
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_label=f"{caption}: {y_name} by {x_name}, {len(points)} points",
        class_=class_ or None,
    )


def _mark(x: float, y: float, kind: str, label: str) -> Element:
    title = el("title", label) if label else None
    match kind:
        case "pruned":
            return el("path", title, d=f"M{x - 3} {y - 3}L{x + 3} {y + 3}M{x - 3} {y + 3}L{x + 3} {y - 3}", class_=kind)
        case "paper":
            return el("path", title, d=f"M{x} {y - 6.5}L{x + 6.5} {y}L{x} {y + 6.5}L{x - 6.5} {y}Z", class_=kind)
        case _:
            return el("circle", title, cx=x, cy=y, r=6.5 if kind == "chosen" else 4.5, class_=kind)


def _legend(kinds: Sequence[str], line_name: str) -> Element:
    entries = [(_mark(8, 8, kind, ""), _KINDS[kind]) for kind in kinds]
    if line_name:
        entries.append((el("path", d="M0 12H8V4H16", class_="trail"), line_name))
    shown = [el("li", el("svg", mark, viewBox="0 0 16 16", aria_hidden="true"), name) for mark, name in entries]
    return el("ul", *shown, class_="legend")


def _stairs(corners: Sequence[tuple[float, float]], end: float) -> str:
    """A staircase through the corners, and on to the right edge."""
    if not corners:
        return ""
    (x, y), *others = corners
    return f"M{x} {y}" + "".join(f"H{x}V{y}" for x, y in others) + f"H{end}"


def _padded(low: float, high: float) -> tuple[float, float]:
    room = (high - low) * 0.06 or abs(high) * 0.1 or 0.5
    return low - room, high + room


def _ticks(low: float, high: float, most: int) -> list[float]:
    """At most about so many round numbers between two numbers."""
    rough = (high - low) / max(most, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step for step in (power, 2 * power, 5 * power, 10 * power) if step >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(n * step, 12) for n in range(first, last + 1)]
