"""Sections of the report on a model of a number: predicted against actual, residuals by decile."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from components.evaluate.tables import table

if TYPE_CHECKING:
    from trainer.serving.evaluate import Row

MAX_POINTS = 1000
# Shares of the values beyond the axes, where points are drawn at the border.
OUTSIDE = 0.005
SIDE, WIDTH, HEIGHT = 300, 480, 220
LEFT, BOTTOM = 64, 24

Scale = Callable[[Any], Any]


def value_sections(
    predictions: NDArray[np.float32],
    labels: NDArray[np.float32],
    by_decile: Sequence["Row"],
    *,
    unit: str,
) -> str:
    """Return the sections.

    Args:
        predictions: Predicted values [n].
        labels: Actual values [n].
        by_decile: The rows of `score_deciles`.
        unit: Of the values, "" for none.
    """
    in_unit = f", in {unit}" if unit else ""
    return (
        "<h2>Predicted against actual</h2>\n"
        f"<p>Horizontal: actual value{in_unit}. Vertical: predicted value.{_sampled(labels)}</p>\n"
        f"{_draw_points(predictions, labels)}\n"
        "<h2>Residuals by decile</h2>\n"
        f"<p>A residual is the actual value minus the predicted one{in_unit}. Each tenth of the "
        "examples, by predicted value: the line holds 80 % of the residuals, the bar 50 %, the "
        "dash is the median.</p>\n"
        f"{_draw_residuals(by_decile)}\n"
        f'<div class="wide">{_decile_table(by_decile)}</div>\n'
    )


def _sampled(labels: NDArray[np.float32]) -> str:
    return f" {MAX_POINTS:,} of {len(labels):,} examples." * (len(labels) > MAX_POINTS)


def _draw_points(predictions: NDArray[np.float32], labels: NDArray[np.float32]) -> str:
    every = -(-len(labels) // MAX_POINTS)
    actual, predicted = labels[::every].astype(float), predictions[::every].astype(float)
    low, high = np.quantile(np.concatenate([actual, predicted]), [OUTSIDE, 1 - OUTSIDE])
    scale = _scale(low, high, SIDE)
    xs, ys = LEFT + scale(actual), SIDE - scale(predicted)
    dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in zip(xs, ys, strict=True))
    ticks = _ticks(low, high)
    horizontal = "".join(
        f'<text x="{LEFT + scale(tick):.1f}" y="{SIDE + 16}" text-anchor="middle">{tick:.4g}</text>'
        for tick in ticks
    )
    return (
        f'<svg class="chart" viewBox="0 0 {LEFT + SIDE + 24} {SIDE + BOTTOM}" '
        f'width="{LEFT + SIDE + 24}" role="img" aria-label="predicted against actual values">'
        f'<rect x="{LEFT}" y="0" width="{SIDE}" height="{SIDE}"/>'
        f'<path class="line" d="M{LEFT} {SIDE}L{LEFT + SIDE} 0"/>'
        f'<path class="dots" d="{dots}"/>{_vertical_ticks(ticks, scale, SIDE)}{horizontal}</svg>'
    )


def _draw_residuals(by_decile: Sequence["Row"]) -> str:
    shares = [row["residual_shares"] for row in by_decile]
    low, high = min(0, *map(min, shares)), max(0, *map(max, shares))
    scale = _scale(low, high, HEIGHT)
    step = WIDTH / len(by_decile)
    bars = []
    for number, (least, lower, median, upper, most) in enumerate(scale(np.array(shares)), start=1):
        x = LEFT + (number - 0.5) * step
        width = step / 2
        bars.append(
            f'<path class="line" d="M{x:.1f} {HEIGHT - least:.1f}V{HEIGHT - most:.1f}"/>'
            f'<rect class="bar" x="{x - width / 2:.1f}" y="{HEIGHT - upper:.1f}" '
            f'width="{width:.1f}" height="{upper - lower:.1f}"/>'
            f'<path class="median" d="M{x - width / 2:.1f} {HEIGHT - median:.1f}h{width:.1f}"/>'
            f'<text x="{x:.1f}" y="{HEIGHT + 16}" text-anchor="middle">{number}</text>'
        )
    zero = HEIGHT - scale(0.0)
    return (
        f'<svg class="chart" viewBox="0 0 {LEFT + WIDTH} {HEIGHT + BOTTOM}" '
        f'width="{LEFT + WIDTH}" role="img" aria-label="residuals by decile">'
        f'<rect x="{LEFT}" y="0" width="{WIDTH}" height="{HEIGHT}"/>'
        f'<path class="line" d="M{LEFT} {zero:.1f}h{WIDTH}"/>{"".join(bars)}'
        f"{_vertical_ticks([low, 0.0, high], scale, HEIGHT)}</svg>"
    )


def _decile_table(by_decile: Sequence["Row"]) -> str:
    names = ("low", "high", "predicted", "actual", "residual", "mae")
    return table(
        (
            "decile",
            "examples",
            *("least prediction", "largest prediction", "mean prediction", "mean actual"),
            *("mean residual", "MAE"),
        ),
        [
            (str(number), f"{row['num_examples']:,}", *(f"{row[name]:.4g}" for name in names))
            for number, row in enumerate(by_decile, start=1)
        ],
    )


def _scale(low: float, high: float, length: int) -> Scale:
    """Return a function from values to distances from the lower end of an axis."""
    size = high - low or 1.0
    return lambda values: np.clip((values - low) / size, 0, 1) * length


def _ticks(low: float, high: float) -> list[float]:
    return [low, (low + high) / 2, high]


def _vertical_ticks(ticks: Sequence[float], scale: Scale, height: int) -> str:
    return "".join(
        f'<text x="{LEFT - 6}" y="{max(height - scale(tick), 10):.1f}" text-anchor="end">'
        f"{tick:.4g}</text>"
        for tick in dict.fromkeys(ticks)
    )
