"""Accuracy against cost as a plot: SVG that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from knowgap.compile.evaluation.results import COSTS
from knowgap.compile.experiments.measures import is_cost
from knowgap.compile.experiments.result import ExperimentResult
from knowgap.errors import UnknownName

__all__ = ["ALONE", "MARKS", "Point", "cost_plot", "plot"]

MARKS = """
.plot text{font:12px system-ui,sans-serif;fill:var(--ink)}.plot .tick,.plot .name{fill:var(--soft)}
.plot .grid{stroke:var(--line)}.plot .axis{stroke:var(--soft)}
.plot .front{fill:none;stroke:var(--mark);stroke-width:1.5;opacity:.55}
.plot .bar{stroke:var(--soft);opacity:.4}.plot .number{font-size:10px;fill:var(--soft)}
.plot .dot circle{fill:var(--soft)}.plot .best circle{fill:var(--mark)}.plot .best text{font-weight:600}
"""
"""How the parts of a plot look, in the colours of the page that it stands on."""

ALONE = ".plot{--ink:#1d2329;--soft:#5d6873;--line:#d9dee3;--mark:#0b6e99;background:#fff;max-width:860px}" + MARKS
"""The same with colours, for a plot that stands on no page."""

_WIDTH, _HEIGHT = 640, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 216, 40, 46
_LINE = 16
_Axis = tuple[Callable[[float], float], Sequence[tuple[float, str]]]  # places of values, and ticks with their texts


class Point(NamedTuple):
    """A row: its cost, its score with interval (percent), and its name."""

    label: str
    cost: float
    score: float
    low: float
    high: float


def cost_plot(experiment: ExperimentResult, column: int = 0, cost: str = "", *, style: str = ALONE) -> str:
    """The main score of a data set's rows against what they cost per question.

    Args:
        experiment: what was found.
        column: number of the data set.
        cost: a name of `compile.evaluation.results.COSTS`; tokens where absent, or calls where none were counted.
        style: CSS that goes into the picture, to stand alone; empty for a page that has its own.

    Returns:
        SVG; an empty string where nothing was scored.

    Raises:
        UnknownName: there is no such cost.
    """
    if cost and cost not in COSTS:
        raise UnknownName.among("cost", cost, COSTS)
    metrics = experiment.table.columns[column].metrics
    place = next((n for n, name in enumerate(metrics) if not is_cost(name)), None)
    cells = [cell for cell in experiment.cells if cell.column == column and not cell.reason]
    if place is None or not cells:
        return ""
    counted = cost or ("tokens" if any(cell.costs["tokens"] for cell in cells) else "lm_calls")
    points = [
        Point(
            experiment.table.rows[c.row].label, c.costs.get(counted, 0.0), *(100 * v for v in (f.mean, f.low, f.high))
        )
        for c in cells
        if (f := c.figures[place].ours) is not None
    ]
    title = f"{counted.replace('_', ' ').replace('lm ', 'LM ')} per question"
    drawn = plot(points, title, f"{metrics[place].replace('_', ' ')}, percent")
    if not drawn or not style:
        return drawn
    return drawn.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1).replace(
        "</svg>", f"<style>{style}</style></svg>"
    )


def plot(points: Sequence[Point], x_title: str, y_title: str) -> str:
    """Points with intervals, the cost on a logarithmic axis; a line joins those that nothing cheaper beats.

    Points are numbered from the cheapest on; the numbers' names stand at the right.

    Args:
        points: rows with a cost above 0; the others are left out.
        x_title: what the cost is.
        y_title: what the score is.
    """
    chosen = sorted((p for p in points if p.cost > 0), key=lambda p: (p.cost, -p.score))
    if not chosen:
        return ""
    x, x_ticks = _x_axis([p.cost for p in chosen])
    height = max(_HEIGHT, _TOP + _BOTTOM + _LINE * len(chosen))
    y, y_ticks = _y_axis([v for p in chosen for v in (p.low, p.high)], height)
    right, bottom = _WIDTH - _RIGHT, height - _BOTTOM
    spoken = quoteattr(f"{y_title} against {x_title}")
    parts = [f'<svg class="plot" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label={spoken}>']
    for value, text in y_ticks:
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{text}</text>')
    for value, text in x_ticks:
        parts.append(f'<text class="tick" x="{x(value):.1f}" y="{bottom + 18}" text-anchor="middle">{text}</text>')
    parts.append(f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    middle = (_LEFT + right) / 2
    parts.append(f'<text class="name" x="{middle:.0f}" y="{height - 6}" text-anchor="middle">{escape(x_title)}</text>')
    parts.append(f'<text class="name" x="{_LEFT}" y="14">{escape(y_title)}</text>')
    front = _front(chosen)
    if len(front) > 1:
        path = " ".join(f"{x(p.cost):.1f},{y(p.score):.1f}" for p in front)
        parts.append(f'<polyline class="front" points="{path}"/>')
    for number, p in enumerate(chosen, start=1):
        cx, cy, at = x(p.cost), y(p.score), _TOP + _LINE * (number - 1)
        best = "best" if p in front else "dot"
        tip = f"{p.label}: {p.score:.1f} [{p.low:.1f}–{p.high:.1f}], {p.cost:.3g} {x_title}"
        parts.append(f'<g class="{best}"><title>{escape(tip)}</title>')
        parts.append(f'<line class="bar" x1="{cx:.1f}" x2="{cx:.1f}" y1="{y(p.low):.1f}" y2="{y(p.high):.1f}"/>')
        parts.append(f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="4.5"/>')
        above = cy - 8 if number % 2 else cy + 17  # neighbours' numbers stay apart
        parts.append(f'<text class="number" x="{cx:.1f}" y="{above:.1f}" text-anchor="middle">{number}</text>')
        parts.append(f'<text x="{right + 32}" y="{at + 4:.1f}" text-anchor="end">{number}</text>')
        parts.append(f'<text x="{right + 40}" y="{at + 4:.1f}">{escape(_short(p.label))}</text></g>')
    return "".join([*parts, "</svg>"])


def _front(points: Sequence[Point]) -> list[Point]:
    """The points that no other beats at the same cost or less, cheapest first."""
    found: list[Point] = []
    for point in points:
        if not found or point.score > found[-1].score:
            found.append(point)
    return found


def _x_axis(costs: Sequence[float]) -> _Axis:
    low, high = math.log10(min(costs)), math.log10(max(costs))
    pad = max(0.08, (high - low) * 0.08)
    low, high = low - pad, high + pad
    steps = [m * 10**e for e in range(math.floor(low), math.ceil(high) + 1) for m in (1, 2, 5)]
    ticks = [(v, _number(v)) for v in steps if low <= math.log10(v) <= high]
    width = _WIDTH - _LEFT - _RIGHT
    return (lambda v: _LEFT + (math.log10(v) - low) / (high - low) * width), ticks


def _y_axis(values: Sequence[float], height: float) -> _Axis:
    low, high = min(values), max(values)
    step = next(s for s in (1, 2, 5, 10, 20, 25, 50) if (high - low) / s <= 6 or s == 50)
    start, end = math.floor(low / step) * step, math.ceil(high / step) * step
    end = end if end > start else start + step
    ticks = [(v, _number(v)) for v in (start + i * step for i in range(round((end - start) / step) + 1))]
    span = height - _TOP - _BOTTOM
    return (lambda v: _TOP + (end - v) / (end - start) * span), ticks


def _number(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def _short(label: str, width: int = 25) -> str:
    return label if len(label) <= width else label[: width - 1] + "…"
