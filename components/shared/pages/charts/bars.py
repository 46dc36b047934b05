"""Bars of one row each, for a cell of a table; all rows of a table share one axis."""

from markupsafe import Markup, escape

from components.shared.pages.charts.axis import Axis

WIDTH, HEIGHT = 150, 18
MARGIN = 4


def bar(
    value: float,
    *,
    axis: Axis,
    text: str,
    interval: tuple[float, float] | None = None,
    css: str = "",
) -> str:
    """Return a bar from zero, or the axis' nearer end, to a value, with its interval as a line."""
    start, end = sorted((_place(0.0, axis), _place(value, axis)))
    marks = (
        f'<path class="grid" d="M{_place(0.0, axis):.1f} 0V{HEIGHT}"/>'
        f'<rect x="{start:.1f}" y="4" width="{max(end - start, 0.6):.1f}" height="{HEIGHT - 8}"/>'
    )
    if interval:
        low, high = (_place(end_point, axis) for end_point in interval)
        half = HEIGHT / 2
        marks += f'<path class="whisker" d="M{low:.1f} {half}H{high:.1f}"/>' + "".join(
            f'<path class="whisker" d="M{end_point:.1f} {half - 4}v8"/>'
            for end_point in (low, high)
        )
    return Markup(
        f'<svg class="bar {css}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' aria-label="{escape(text)}">{marks}</svg>'
    )


def _place(value: float, axis: Axis) -> float:
    return MARGIN + axis.share(value) * (WIDTH - 2 * MARGIN)
