import math
import re
from xml.etree import ElementTree

import pytest

from components.shared.pages.charts.axis import Axis, round_axis, tick_text
from components.shared.pages.charts.plot import HEIGHT, WIDTH, Series, bar, line_chart, thinned

pytestmark = pytest.mark.fast
AXIS = Axis(title="x (<s>)", low=0.0, high=2.0, ticks=(0.0, 1.0, 2.0))


@pytest.mark.parametrize(
    ("values", "options", "ticks"),
    [
        ([0.21, 0.96], {}, (0.2, 0.4, 0.6, 0.8, 1.0)),
        ([130, 900], {"has_zero": True}, (0, 200, 400, 600, 800, 1000)),
        ([-0.03, 0.01], {}, (-0.03, -0.02, -0.01, 0, 0.01)),
        ([5.0, 5.0], {}, (2, 3, 4, 5, 6, 7, 8)),
        ([0.0], {"has_zero": True}, (0, 0.2, 0.4, 0.6, 0.8, 1)),
        ([], {}, (0, 0.2, 0.4, 0.6, 0.8, 1)),
        ([float("nan"), 1e-9], {"has_zero": True}, (0, 2e-10, 4e-10, 6e-10, 8e-10, 1e-9)),
    ],
)
def test_an_axis_has_round_ticks_and_includes_all_values(values, options, ticks):
    axis = round_axis(values, title="t", **options)

    assert axis.ticks == pytest.approx(ticks)
    known = [value for value in values if math.isfinite(value)]
    assert axis.low <= min(known, default=0)
    assert axis.high >= max(known, default=0)


def test_ticks_are_short():
    for values, text in (
        ((0.0, 12000.0), "12,000"),
        ((0.0, 2.5e7), "25M"),
        ((1e-5,), "0.00001"),
        ((1.357e9,), "1.357B"),
        ((0.0, 0.25), "0.25"),
    ):
        assert tick_text(values[-1], values) == text


def test_a_line_has_gaps_and_stays_within_the_frame():
    points = [(0.0, 0.0), (0.5, 1.0), (1.0, None), (2.0, 99.0)]
    drawn = line_chart([Series(name="a", points=points)], x=AXIS, y=AXIS, text="<b>")
    lines = re.findall(r'<polyline class="s0" points="([^"]*)"', drawn)
    places = [tuple(map(float, pair.split(","))) for line in lines for pair in line.split()]

    assert [len(line.split()) for line in lines] == [2, 1]
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in places)
    assert 'class="dot s0"' in drawn  # a lone point would not be visible as a line
    assert "legend" not in drawn


def test_texts_are_escaped_and_the_drawing_is_well_formed():
    names = ("<script>", "b&")
    series = [Series(name=name, points=[(0.0, 1.0), (1.0, 2.0)], style=5) for name in names]
    drawn = line_chart(series, x=AXIS, y=AXIS, text='"<i>"') + bar(1.0, axis=AXIS, text='"<')

    ElementTree.fromstring(f"<div>{drawn}</div>")
    assert "<script>" not in drawn
    assert "<i>" not in drawn
    assert drawn.count('class="key"') == 2


def test_thinning_keeps_the_first_and_the_last_point():
    points = [(float(n), 1.0) for n in range(1001)]
    found = thinned(points, 100)

    assert len(found) <= 102
    assert (found[0], found[-1]) == (points[0], points[-1])
    assert thinned([]) == []
