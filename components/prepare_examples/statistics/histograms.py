"""Drawing of a number's distribution in several sets of data, with a linear and a log axis."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from components.prepare_examples.statistics.drift import has_all_values
from components.shared.pages.charts.axis import Axis, round_axis
from components.shared.pages.charts.plot import Frame
from components.shared.text.value_text import percent_text, time_text
from trainer import Json

NUM_BINS = 20
NUM_DECADES = 4  # of the log axis
DAY_SECONDS = 86_400
SMALL = 1e-4  # ticks have few digits


def histogram(features: Sequence[Json | None], *, text: str) -> str:
    """Return the drawing of a number in each set of data, "" without values.

    It shows the shares of values in intervals of one width, from the first to the last percentile.
    """
    present = {style: of for style, of in enumerate(features) if of and of["quantiles"]}
    if not present:
        return ""
    edges = _edges(list(present.values()))
    shares = {style: _shares(feature, edges) for style, feature in present.items()}
    x = _x_axis(edges, next(iter(present.values())))
    drawings = ""
    for css, y in _y_axes(max(float(of.max()) for of in shares.values())).items():
        frame = Frame(x=x, y=y)
        marks = "".join(
            _outline(frame, edges, _heights(of, css), style=style) for style, of in shares.items()
        )
        drawings += f'<div class="{css}">{frame.draw(marks, text=text)}</div>'
    return Markup(drawings)


def _edges(features: list[Json]) -> NDArray[np.float64]:
    """Return the ends of the intervals; between the numbers, if these are whole."""
    low = min(feature["quantiles"][1] for feature in features)
    high = max(feature["quantiles"][99] for feature in features)
    if low == high:
        low = min(feature["min"] for feature in features)
        high = max(feature["max"] for feature in features)
    if features[0]["type"] == "INT":
        step = math.ceil((high - low + 1) / NUM_BINS)
        num_bins = math.ceil((high - low + 1) / step)
        return np.linspace(low - 0.5, low - 0.5 + step * num_bins, num_bins + 1)
    return np.linspace(low, high if high > low else low + 1, NUM_BINS + 1)


def _shares(feature: Json, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of values in each interval: counted, or estimated by the percentiles."""
    if has_all_values(feature):
        values, counts = np.array(feature["top_values"], dtype=np.float64).T
        return np.asarray(np.histogram(values, edges, weights=counts)[0] / counts.sum())
    quantiles = np.array(feature["quantiles"], dtype=np.float64)
    first = np.searchsorted(quantiles, edges[0], "left") / 100
    above = np.searchsorted(quantiles, edges, "right")
    after = np.minimum(above, 100)
    low, high = quantiles[np.maximum(above - 1, 0)], quantiles[after]
    inside = np.divide(edges - low, high - low, out=np.zeros(len(edges)), where=high > low)
    below = np.clip((above - 1 + inside) / 100, 0, 1)
    below[0] = min(first, below[0])
    return np.diff(below)


def _x_axis(edges: NDArray[np.float64], first: Json) -> Axis:
    """Return the axis of values; few ticks of times, and of numbers that differ little."""
    low, high = float(edges[0]), float(edges[-1])
    is_time = first.get("is_time", False)
    if not is_time and high - low > SMALL * max(-low, high):
        half = 0.5 * (first["type"] == "INT")
        return round_axis([low + half, high - half], title="")
    has_days = high - low > 3 * DAY_SECONDS
    unit, form = (DAY_SECONDS, "%Y-%m-%d") if has_days else (60, "%m-%d %H:%M")
    unit = unit if is_time else 1
    places = [low + share * (high - low) for share in ((0.2, 0.5, 0.8) if is_time else (0.2, 0.8))]
    if first["type"] == "INT":
        places = [place // unit * unit for place in places]
    names = [time_text(tick, form=form) if is_time else f"{tick:,.12g}" for tick in places]
    return Axis(title="", low=low, high=high, ticks=tuple(places), names=tuple(names))


def _y_axes(most: float) -> dict[str, Axis]:
    linear = round_axis([most], title="share of values", has_zero=True)
    top = math.ceil(math.log10(most)) if most else 0
    decades = tuple(float(power) for power in range(top - NUM_DECADES, top + 1))
    return {
        "linear": replace(linear, names=tuple(map(percent_text, linear.ticks))),
        "log": Axis(
            title="share of values",
            low=decades[0],
            high=decades[-1],
            ticks=decades,
            names=tuple(percent_text(10**power) for power in decades),
        ),
    }


def _heights(shares: NDArray[np.float64], css: str) -> NDArray[np.float64]:
    return shares if css == "linear" else np.log10(np.maximum(shares, 1e-12))


def _outline(
    frame: Frame, edges: NDArray[np.float64], heights: NDArray[np.float64], *, style: int
) -> str:
    left = [frame.x_of(edge) for edge in edges]
    steps = "".join(
        f"V{frame.y_of(height):.0f}H{right:.0f}"
        for height, right in zip(heights, left[1:], strict=True)
    )
    bottom = frame.y_of(frame.y.low)
    return f'<path class="steps s{style}" d="M{left[0]:.0f} {bottom:.0f}{steps}V{bottom:.0f}"/>'
