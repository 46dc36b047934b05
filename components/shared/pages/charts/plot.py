"""Charts with two axes: lines, points and areas; and bars of one row, for a cell of a table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup, escape

from components.shared.pages.charts.axis import Axis

WIDTH, HEIGHT = 360, 236
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 10, 42
NUM_STYLES = 4
MAX_POINTS = 300

Point = tuple[float, float | None]
BAR_WIDTH, BAR_HEIGHT, BAR_MARGIN = 150, 18, 4


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points of one line, in order; None for y leaves a gap.

    Attributes:
        name: In the legend.
        style: 0 to 3, a colour with a pattern of dashes.
        has_dots: Each point is marked.
    """

    name: str
    points: Sequence[Point]
    style: int = 0
    has_dots: bool = False


def line_chart(
    series: Sequence[Series],
    *,
    x: Axis,
    y: Axis,
    text: str,
    has_diagonal: bool = False,
) -> str:
    """Return a figure of lines, with a legend if there are several.

    `text` is its title, and its alternative for readers who do not see it.
    """
    frame = Frame(x=x, y=y)
    marks = [frame.diagonal()] if has_diagonal else []
    marks += [frame.line(line) for line in series]
    return _figure(frame.draw("".join(marks), text=text), text, legend(series))


def point_chart(points: Iterable[tuple[float, float]], *, x: Axis, y: Axis, text: str) -> str:
    """Return a figure of points, with the line on which both are equal."""
    frame = Frame(x=x, y=y)
    dots = "".join(f"M{frame.x_of(a):.1f} {frame.y_of(b):.1f}h0" for a, b in points)
    marks = f'{frame.diagonal()}<path class="points" d="{dots}"/>'
    return _figure(frame.draw(marks, text=text), text, "")


def box_chart(boxes: Sequence[Sequence[float]], *, x_title: str, y: Axis, text: str) -> str:
    """Return a figure of boxes: of each the least, lower, middle, upper and most value."""
    count = len(boxes)
    numbers = tuple(float(number) for number in range(1, count + 1))
    frame = Frame(x=Axis(title=x_title, low=0.5, high=count + 0.5, ticks=numbers), y=y)
    width = (WIDTH - LEFT - RIGHT) / count / 2
    marks = [frame.horizontal(0.0)] if y.low <= 0 <= y.high else []
    for number, box in enumerate(boxes, start=1):
        middle = frame.x_of(number)
        least, lower, median, upper, most = map(frame.y_of, box)
        marks.append(
            f'<path class="whisker" d="M{middle:.1f} {least:.1f}V{most:.1f}"/>'
            f'<rect class="box" x="{middle - width / 2:.1f}" y="{upper:.1f}" width="{width:.1f}"'
            f' height="{max(lower - upper, 0.5):.1f}"/>'
            f'<path class="median" d="M{middle - width / 2:.1f} {median:.1f}h{width:.1f}"/>'
        )
    return _figure(frame.draw("".join(marks), text=text), text, "")


def legend(series: Sequence[Series]) -> str:
    """Return the names of several lines, each with a piece of its line."""
    if len(series) < 2:  # noqa: PLR2004
        return ""
    keys = "".join(
        f'<span class="key"><svg class="swatch" viewBox="0 0 26 10" aria-hidden="true">'
        f'<path class="s{line.style % NUM_STYLES}" d="M0 5H26"/></svg>{escape(line.name)}</span>'
        for line in series
    )
    return f'<div class="legend">{keys}</div>'


def thinned(points: Sequence[Point], most: int = MAX_POINTS) -> list[Point]:
    """Return at most about `most` of the points, always with the first and the last."""
    every = -(-len(points) // most) or 1
    return [*points[:-1:every], *points[-1:]]


@dataclass(frozen=True, kw_only=True)
class Frame:
    """Axes with ticks and titles, and the places of values between them, in pixels."""

    x: Axis
    y: Axis

    def x_of(self, value: float) -> float:
        """Return the distance of a value from the left."""
        return LEFT + self.x.share(value) * (WIDTH - LEFT - RIGHT)

    def y_of(self, value: float) -> float:
        """Return the distance of a value from the top."""
        return HEIGHT - BOTTOM - self.y.share(value) * (HEIGHT - TOP - BOTTOM)

    def line(self, series: Series) -> str:
        """Return one line, with gaps."""
        style = f"s{series.style % NUM_STYLES}"
        parts = []
        for is_known, group in groupby(series.points, lambda point: point[1] is not None):
            if is_known:
                places = [(self.x_of(a), self.y_of(b or 0.0)) for a, b in group]
                parts.append(self._part(places, style, series))
        return "".join(parts)

    def diagonal(self) -> str:
        """Return the line on which x equals y."""
        low, high = max(self.x.low, self.y.low), min(self.x.high, self.y.high)
        return (
            f'<path class="reference" d="M{self.x_of(low):.1f} {self.y_of(low):.1f}'
            f'L{self.x_of(high):.1f} {self.y_of(high):.1f}"/>'
        )

    def horizontal(self, value: float) -> str:
        """Return a line at a height."""
        return f'<path class="reference" d="M{LEFT} {self.y_of(value):.1f}H{WIDTH - RIGHT}"/>'

    def draw(self, marks: str, *, text: str) -> str:
        """Return the SVG of marks with the axes around them."""
        bottom, middle = HEIGHT - BOTTOM, (LEFT + WIDTH - RIGHT) / 2
        grid = "".join(f"M{self.x_of(tick):.1f} {TOP}V{bottom}" for tick in self.x.ticks)
        grid += "".join(f"M{LEFT} {self.y_of(tick):.1f}H{WIDTH - RIGHT}" for tick in self.y.ticks)
        across = "".join(
            f'<text class="middle" x="{self.x_of(tick):.1f}" y="{bottom + 15}">{text}</text>'
            for tick, text in self.x.texts
        )
        up = "".join(
            f'<text class="end" x="{LEFT - 5}" y="{self.y_of(tick) + 4:.1f}">{text}</text>'
            for tick, text in self.y.texts
        )
        half = (TOP + bottom) / 2
        titles = (
            f'<text class="title middle" x="{middle:.0f}" y="{HEIGHT - 6}">'
            f"{escape(self.x.title)}</text>"
            f'<text class="title middle" transform="translate(11 {half:.0f}) rotate(-90)">'
            f"{escape(self.y.title)}</text>"
        )
        return (
            f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
            f' aria-label="{escape(text)}"><path class="grid" d="{grid}"/>'
            f"{across}{up}{marks}{titles}</svg>"
        )

    def _part(self, places: list[tuple[float, float]], style: str, series: Series) -> str:
        steps = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        is_marked = series.has_dots or len(places) == 1
        line = f'<polyline class="{style}" points="{steps}"/>'
        if is_marked:
            dots = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in places)
            line += f'<path class="dot {style}" d="{dots}"/>'
        return line


def _figure(svg: str, text: str, keys: str) -> str:
    return Markup(f"<figure><figcaption>{escape(text)}</figcaption>{keys}{svg}</figure>")


def bar(
    value: float,
    *,
    axis: Axis,
    text: str,
    interval: tuple[float, float] | None = None,
    css: str = "",
) -> str:
    """Return a bar from zero, or the axis' nearer end, to a value, with its interval as a line.

    All rows of a table share the axis.
    """
    start, end = sorted((_place(0.0, axis), _place(value, axis)))
    marks = (
        f'<path class="grid" d="M{_place(0.0, axis):.1f} 0V{BAR_HEIGHT}"/>'
        f'<rect x="{start:.1f}" y="4" width="{max(end - start, 0.6):.1f}"'
        f' height="{BAR_HEIGHT - 8}"/>'
    )
    if interval:
        low, high = (_place(end_point, axis) for end_point in interval)
        half = BAR_HEIGHT / 2
        marks += f'<path class="whisker" d="M{low:.1f} {half}H{high:.1f}"/>' + "".join(
            f'<path class="whisker" d="M{end_point:.1f} {half - 4}v8"/>'
            for end_point in (low, high)
        )
    return Markup(
        f'<svg class="bar {css}" viewBox="0 0 {BAR_WIDTH} {BAR_HEIGHT}" role="img"'
        f' aria-label="{escape(text)}">{marks}</svg>'
    )


def _place(value: float, axis: Axis) -> float:
    return BAR_MARGIN + axis.share(value) * (BAR_WIDTH - 2 * BAR_MARGIN)
