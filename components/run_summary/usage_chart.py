"""SVG charts of CPU and memory for the report."""

from collections.abc import Sequence
from html import escape
from itertools import groupby

from components.run_summary.usage import MEBIBYTE, Usage, Values, maximum, mean, shorten

WIDTH, HEIGHT = 360, 70
MAX_POINTS = 180


def usage_section(usages: Sequence[Usage]) -> str:
    """Return a table with a chart of CPU and one of memory for each replica; "" without samples."""
    if not usages:
        return ""
    highest_cores = max(1.0, *(maximum(usage.cores) for usage in usages))
    highest_memory = max(1.0, *(maximum(usage.memory_bytes) for usage in usages))
    rows = "".join(
        f"<tr><th>{escape(usage.name)}</th>"
        f"<td>{chart(usage.cores, highest=highest_cores)}"
        f"{mean(usage.cores):.1f} cores, at most {maximum(usage.cores):.1f}</td>"
        f"<td>{chart(usage.memory_bytes, highest=highest_memory)}"
        f"at most {maximum(usage.memory_bytes) / MEBIBYTE:,.0f} MB</td></tr>"
        for usage in usages
    )
    duration = f"{usages[0].seconds[-1]:.0f} s"
    return (
        f"<table><tr><th></th><th>CPU, 0 to {highest_cores:.1f} cores, over {duration}</th>"
        f"<th>Memory, 0 to {highest_memory / MEBIBYTE:,.0f} MB</th></tr>{rows}</table>"
    )


def chart(values: Values, *, highest: float) -> str:
    """Return an area chart from zero to `highest`, with gaps for None."""
    shown = shorten(values, MAX_POINTS)
    step = WIDTH / max(len(shown) - 1, 1)
    points = [(index * step, value) for index, value in enumerate(shown)]
    areas = [
        _area([(x, HEIGHT - HEIGHT * (value or 0.0) / highest) for x, value in group])
        for is_known, group in groupby(points, lambda point: point[1] is not None)
        if is_known
    ]
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(areas)}</svg>'


def _area(line: list[tuple[float, float]]) -> str:
    if len(line) == 1:  # a line needs two ends
        line = [line[0], (line[0][0] + 2, line[0][1])]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in line)
    corners = f"{line[0][0]:.1f},{HEIGHT} {points} {line[-1][0]:.1f},{HEIGHT}"
    return f'<polygon points="{corners}"/><polyline points="{points}"/>'
