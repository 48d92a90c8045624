"""Charts of points over two axes: the positions of all parts in pixels. `templates/chart.html.jinja` draws the SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

KINDS = {
    "complete": "complete trial",
    "row": "row of the table",
    "front": "on the Pareto front",
    "pruned": "stopped early: mean over the questions it was asked",
    "default": "the defaults",
    "chosen": "chosen",
}
"""The meaning of the marks, by kind of point; later kinds are drawn above earlier ones."""

_LEFT, _RIGHT, _TOP = 46, 12, 26
_WIDE, _HIGH = 16, 12  # size of a mark's number, in pixels
_BESIDE = [
    (x, y + away) for away in (0, -12, 12, -24, 24, -36, 36) for x, y in ((7, -6), (7, 16), (-20, -6), (-20, 16))
]


@dataclass(frozen=True)
class Point:
    """A point of one of the `KINDS`, with its tooltip, `label`, and the interval of `y`.

    `number` is the place of its name among the names of the chart, from 1; 0 for none.
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
class Chart:
    """Points over two axes, of which there is at least one; width and height are in pixels.

    Attributes:
        line: corners of a staircase through the points, from left to right.
        line_name: what the line means.
        whole_numbers: whether the horizontal axis has ticks at whole numbers only.
        logarithmic: whether the horizontal axis is logarithmic; every `x` is above 0 then.
        names: names to which the numbers of points refer; empty if no mark has a number.
    """

    caption: str
    points: Sequence[Point]
    x_name: str
    y_name: str
    line: Sequence[tuple[float, float]] = ()
    line_name: str = ""
    whole_numbers: bool = False
    logarithmic: bool = False
    names: Sequence[str] = ()
    width: int = 1040
    height: int = 340

    @property
    def legend(self) -> dict[str, str]:
        """The meanings of the kinds of points in the chart."""
        shown = {point.kind for point in self.points}
        return {kind: meaning for kind, meaning in KINDS.items() if kind in shown}

    @property
    def marks(self) -> list[Point]:
        """The points in drawing order."""
        order = list(KINDS)
        return sorted(self.points, key=lambda point: order.index(point.kind))

    @cached_property
    def labels(self) -> list[tuple[float, float]]:
        """The offsets of the numbers from their `marks`, in pixels, so that numbers do not overlap if possible."""
        taken: list[tuple[float, float]] = []
        labels = []
        for point in self.marks:
            x, y = self.x.place(point.x), self.y.place(point.y)
            free = (
                (dx, dy)
                for dx, dy in _BESIDE
                if all(abs(x + dx - left) >= _WIDE or abs(y + dy - top) >= _HIGH for left, top in taken)
            )
            dx, dy = next(free, _BESIDE[0])
            labels.append((dx, dy))
            if point.number:
                taken.append((x + dx, y + dy))
        return labels

    @property
    def key(self) -> list[tuple[str, str]]:
        """The names, each with the kind of its last mark, which is drawn above its others."""
        kinds = {point.number: point.kind for point in self.marks}
        return [(name, kinds.get(number, "")) for number, name in enumerate(self.names, start=1)]

    @cached_property
    def x(self) -> Axis:
        """The horizontal axis."""
        ends = _LEFT, self.width - _RIGHT
        values = [math.log10(p.x) if self.logarithmic else p.x for p in self.points]
        low, high = _padded(values)
        if self.logarithmic:
            return Axis(low, high, *ends, _powers(low, high), logarithmic=True)
        ticks = _ticks(low, high, self.width // 75)
        return Axis(low, high, *ends, [t for t in ticks if not self.whole_numbers or t[0] == round(t[0])])

    @cached_property
    def y(self) -> Axis:
        """The vertical axis, from the bottom up."""
        shown = [y for p in self.points for y in (p.y, p.low, p.high) if y is not None]
        low, high = _padded([*shown, *(y for _, y in self.line)])
        return Axis(low, high, self.height - 40, _TOP, _ticks(low, high, self.height // 60))

    @property
    def path(self) -> str:
        """The line as an SVG path through its corners, and on to the right edge; empty if there is none."""
        corners = [(self.x.place(x), self.y.place(y)) for x, y in self.line]
        steps = "".join(f"H{x}V{y}" if place else f"M{x} {y}" for place, (x, y) in enumerate(corners))
        return f"{steps}H{self.x.end}" if steps else ""


def _padded(values: Sequence[float]) -> tuple[float, float]:
    """The range of values, with a margin on both sides."""
    low, high = min(values), max(values)
    room = (high - low) * 0.06 or abs(high) * 0.1 or 0.5
    return low - room, high + room


def _ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Round values from `low` to `high`, about `most` of them, with their texts."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step for step in (power, 2 * power, 5 * power, 10 * power) if step >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(value, _number(value)) for value in (round(n * step, 12) for n in range(first, last + 1))]


def _powers(low: float, high: float) -> list[tuple[float, str]]:
    """Round values between two powers of ten, with their texts; evenly spaced ones if the two are close together."""
    factors = (1, 2, 5) if high - low < 2 else (1,)
    values = [factor * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for factor in factors]
    ticks = [(value, _number(value)) for value in values if low <= math.log10(value) <= high]
    return ticks if len(ticks) > 1 else _ticks(10**low, 10**high, 4)


def _number(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"
