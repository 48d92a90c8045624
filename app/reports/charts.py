"""Charts of points over two axes: where each part stands, in pixels; `templates/chart.html.jinja` draws them as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Axis", "Chart", "Plot", "Point"]

KINDS = {
    "complete": "complete trial",
    "row": "row of the table",
    "front": "on the Pareto front",
    "pruned": "stopped early: mean over the questions it was asked",
    "paper": "the paper's settings",
    "chosen": "chosen",
}
"""What the marks mean, by kind of point; later ones are drawn above earlier ones."""

_SIZES = {
    "full": {"wide": (1040, 340), "narrow": (350, 270)},
    "half": {"wide": (520, 330), "narrow": (350, 290)},
    "small": {"": (300, 190)},
}
_LEFT, _RIGHT, _TOP = 46, 12, 26


@dataclass(frozen=True)
class Point:
    """A point of one of the `KINDS`, with the text that it shows when it is pointed at, and the interval of `y`.

    `number` is that of its name in a chart in which several points have the same name, or most have none.
    """

    x: float
    y: float
    kind: str
    label: str
    low: float | None = None
    high: float | None = None
    number: int = 0


@dataclass(frozen=True)
class Axis:
    """Values from `low` to `high` (powers of ten if logarithmic) at the pixels from `start` to `end`."""

    low: float
    high: float
    start: int
    end: int
    ticks: Sequence[tuple[float, str]] = ()
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """The pixel of a value."""
        scaled = math.log10(value) if self.logarithmic else value
        return round(self.start + (scaled - self.low) / (self.high - self.low) * (self.end - self.start), 1)


@dataclass(frozen=True)
class Plot:
    """A chart at one size in pixels, for "wide" or "narrow" windows, or for all (""); `line` is an SVG path."""

    width: int
    height: int
    shown: str
    x: Axis
    y: Axis
    line: str


@dataclass(frozen=True)
class Chart:
    """Points over two axes.

    Attributes:
        caption: what is shown.
        points: at least one.
        x_name: name of the horizontal axis.
        y_name: name of the vertical axis.
        size: "full" takes the page's width, "half" half of it; "small" is one of many, and has no legend.
        line: corners of a staircase through the points, from left to right.
        line_name: what the line means.
        categories: names of the positions 0, 1, … of the horizontal axis if it is not a number.
        whole_numbers: whether the horizontal axis has ticks at whole numbers only.
        logarithmic: whether the horizontal axis is logarithmic; every `x` is above 0 then.
        names: names of the points, in their order, which number the marks from 1 on, unless the points have numbers of
            their own; empty to number none.
    """

    caption: str
    points: Sequence[Point]
    x_name: str
    y_name: str
    size: Literal["full", "half", "small"] = "full"
    line: Sequence[tuple[float, float]] = ()
    line_name: str = ""
    categories: Sequence[str] = ()
    whole_numbers: bool = False
    logarithmic: bool = False
    names: Sequence[str] = ()

    @property
    def legend(self) -> list[tuple[str, str]]:
        """The kinds of points that there are, with what they mean."""
        if self.size == "small":
            return []
        return [(kind, meaning) for kind, meaning in KINDS.items() if any(p.kind == kind for p in self.points)]

    @property
    def marks(self) -> list[tuple[int, Point]]:
        """The points with their numbers, from 1 on, in drawing order; 0 for a point without one."""
        order, numbered = list(KINDS), any(point.number for point in self.points)
        marks = [(point.number if numbered else place, point) for place, point in enumerate(self.points, start=1)]
        return sorted(marks, key=lambda pair: order.index(pair[1].kind))

    @property
    def key(self) -> list[tuple[str, str]]:
        """The names with the kind of the last mark of each, which is drawn above the others."""
        kinds = {number: point.kind for number, point in self.marks}
        return [(name, kinds.get(number, "")) for number, name in enumerate(self.names, start=1)]

    @property
    def plots(self) -> list[Plot]:
        """The chart at each of its sizes."""
        return [self._plot(shown, width, height) for shown, (width, height) in _SIZES[self.size].items()]

    def _plot(self, shown: str, width: int, height: int) -> Plot:
        left, right, bottom = _LEFT, width - _RIGHT, height - (40 if self.x_name else 22)
        values = [p.y for p in self.points] + [y for _, y in self.line]
        low, high = _padded(values + [end for p in self.points for end in (p.low, p.high) if end is not None])
        y_axis = Axis(low, high, bottom, _TOP, _linear_ticks(low, high, max(3, height // 60)))
        values = [p.x for p in self.points]
        if self.categories:
            ticks = list(enumerate(self.categories))
            x_axis = Axis(-0.5, len(self.categories) - 0.5, left, right, ticks)
        elif self.logarithmic:
            low, high = _padded([math.log10(value) for value in values])
            x_axis = Axis(low, high, left, right, _logarithmic_ticks(low, high, width // 75), logarithmic=True)
        else:
            low, high = _padded(values)
            ticks = _linear_ticks(low, high, width // 75)
            whole = [(value, text) for value, text in ticks if value == round(value)]
            x_axis = Axis(low, high, left, right, whole if self.whole_numbers else ticks)
        line = _staircase([(x_axis.place(x), y_axis.place(y)) for x, y in self.line], right)
        return Plot(width, height, shown, x_axis, y_axis, line)


def _padded(values: Sequence[float]) -> tuple[float, float]:
    """The range of values with some room on both sides."""
    low, high = min(values), max(values)
    room = (high - low) * 0.06 or abs(high) * 0.1 or 0.5
    return low - room, high + room


def _linear_ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Round values from `low` to `high`, about `most` of them, with their texts."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step for step in (power, 2 * power, 5 * power, 10 * power) if step >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(value, _number(value)) for value in (round(n * step, 12) for n in range(first, last + 1))]


def _logarithmic_ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """At most about `most` round values between two powers of ten, with their texts."""
    powers = range(math.floor(low), math.ceil(high) + 1)
    shown: list[float] = []
    for factors in ((1, 2, 5), (1, 3), (1,)):
        every = [factor * 10.0**power for power in powers for factor in factors]
        shown = [value for value in every if low <= math.log10(value) <= high]
        if len(shown) <= most:
            break
    return [(value, _number(value)) for value in shown]


def _number(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def _staircase(corners: Sequence[tuple[float, float]], end: float) -> str:
    """An SVG path through the corners, and on to the right edge."""
    if not corners:
        return ""
    (x, y), *others = corners
    return f"M{x} {y}" + "".join(f"H{x}V{y}" for x, y in others) + f"H{end}"
