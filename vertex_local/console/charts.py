"""Lines over steps, drawn as SVG; each line has a colour and a dash of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vertex_local.console import words

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 420, 170, 70, 22, 10
MAX_POINTS = 500
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class Line:
    """A named line of a chart; `number` chooses its colour."""

    name: str
    number: int
    path: str
    last: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart with its lines, and the ends of its axes as texts."""

    title: str
    lines: list[Line]
    least: str
    most: str
    last_step: str


def chart(title: str, series: Mapping[str, Points]) -> Chart | None:
    """Return the chart of some series by name, None without two points in one of them."""
    points = [point for points in series.values() for point in points]
    if max((len(points) for points in series.values()), default=0) < 2:  # noqa: PLR2004
        return None
    steps, values = zip(*points, strict=True)
    low, high, last = min(values), max(values), max(steps)
    scale = (HEIGHT - TOP - BOTTOM) / ((high - low) or 1)

    def path_of(points: Points) -> str:
        thinned = [*points[:: max(1, len(points) // MAX_POINTS)], points[-1]]
        places = [
            (LEFT + step / (last or 1) * (WIDTH - LEFT - 8), TOP + (high - value) * scale)
            for step, value in thinned
        ]
        return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)

    lines = [
        Line(name=name, number=number, path=path_of(points), last=words.number(points[-1][1]))
        for number, (name, points) in enumerate(series.items())
        if points
    ]
    least, most = words.number(low), words.number(high)
    return Chart(title=title, lines=lines, least=least, most=most, last_step=words.number(last))
