"""Small charts of what a job's replicas use over time: inline SVG, no script."""

from collections.abc import Sequence
from itertools import groupby

from vertex_local.console.markup import span, table, text
from vertex_local.processes.usage.curve import Curve, Curves

WIDTH, HEIGHT = 120, 24
MOST_POINTS = 100
MIB = 1024 * 1024

Values = Sequence[float | None]


def usage_charts(curves: Curves) -> str:
    """A table with a chart of CPU and one of memory for each replica; nothing without samples.

    The charts of a column have one scale, so that replicas can be compared.
    """
    seen = {name: curve for name, curve in curves.replicas.items() if not curve.is_empty}
    if not seen:
        return ""
    most_cores = max(1.0, *(_most(curve.cores) for curve in seen.values()))
    most_memory = max(1.0, *(_most(curve.memory_bytes) for curve in seen.values()))
    rows = [
        (
            text(name),
            _chart(curves.seconds, curve.cores, most=most_cores),
            text(f"{_mean(curve.cores):.1f} (at most {_most(curve.cores):.1f})"),
            _chart(curves.seconds, curve.memory_bytes, most=most_memory),
            text(f"{_most(curve.memory_bytes) / MIB:,.0f} MiB"),
        )
        for name, curve in seen.items()
    ]
    lasted = span(curves.seconds[-1])
    heads = ("replica", f"CPU over {lasted}", "cores", f"memory over {lasted}", "at most")
    return f'<div class="usage">{table(heads, rows)}</div>'


def unseen(curves: Curves, names: Sequence[str]) -> str:
    """Names the replicas of which there are samples of others only, as of some containers."""
    missing = [name for name in names if curves.seconds and _is_unseen(curves.replicas.get(name))]
    if not missing:
        return ""
    return f'<p class="empty">no CPU and memory to be seen of {text(", ".join(missing))}</p>'


def _is_unseen(curve: Curve | None) -> bool:
    return curve is None or curve.is_empty


def _chart(seconds: Sequence[float], values: Values, *, most: float) -> str:
    """An area under a line; a gap where there is no value."""
    total = max(seconds[-1], 1.0)
    every = -(-len(seconds) // MOST_POINTS)
    # The most of each few, so that no peak is lost.
    points = [
        (WIDTH * seconds[start] / total, _part_most(values[start : start + every]))
        for start in range(0, len(seconds), every)
    ]
    areas = []
    for is_known, group in groupby(points, lambda point: point[1] is not None):
        if is_known:
            line = [(x, HEIGHT - HEIGHT * (value or 0.0) / most) for x, value in group]
            areas.append(_area(line))
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img">'
        f"{''.join(areas)}</svg>"
    )


def _area(line: list[tuple[float, float]]) -> str:
    if len(line) == 1:  # a line needs two ends
        line = [line[0], (line[0][0] + 1, line[0][1])]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in line)
    corners = f"{line[0][0]:.1f},{HEIGHT} {points} {line[-1][0]:.1f},{HEIGHT}"
    return f'<polygon points="{corners}"/><polyline points="{points}"/>'


def _part_most(values: Values) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _most(values: Values) -> float:
    return _part_most(values) or 0.0


def _mean(values: Values) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known)
