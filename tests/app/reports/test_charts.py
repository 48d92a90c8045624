"""Charts: where numbers stand beside their marks."""

import itertools

from knowgap.reports.charts import Chart, Point


def test_a_logarithmic_axis_has_ticks_whatever_its_range():
    for low, high in ((2.3, 2.4), (2.3, 4.4), (1.0, 900.0), (1.0, 1e6), (3.0, 3.0)):
        points = [Point(low, 0.1, "complete", "low"), Point(high, 0.2, "complete", "high")]
        axis = Chart("costs", points, "x", "y", logarithmic=True).x
        places = [axis.place(value) for value, _ in axis.ticks]
        assert 2 <= len(places) <= 9
        assert places == sorted({*places})
        assert axis.start <= places[0]
        assert places[-1] <= axis.end


def test_no_two_numbers_lie_over_one_another():
    points = [Point(1.0 + n / 1000, 0.5, "complete", f"point {n}", number=n) for n in range(1, 13)]
    points += [Point(5.0, 0.9, "chosen", "far away", number=13)]
    chart = Chart("many in one place", points, "x", "y", names=[f"program {n}" for n in range(1, 14)])
    places = [
        (chart.x.place(point.x) + dx, chart.y.place(point.y) + dy)
        for point, (dx, dy) in zip(chart.marks, chart.labels, strict=True)
    ]
    assert len(places) == 13
    for (left, top), (other_left, other_top) in itertools.combinations(places, 2):
        assert abs(left - other_left) >= 16 or abs(top - other_top) >= 12
