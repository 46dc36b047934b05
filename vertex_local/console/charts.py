"""Charts of the CPU and memory of a job's replicas, as inline SVG."""

from collections.abc import Sequence
from itertools import groupby

from vertex_local.console.markup import span, table, text
from vertex_local.processes.usage.curve import Curve, Curves

WIDTH, HEIGHT = 120, 24
MAX_POINTS = 100
MIB = 1024 * 1024

Values = Sequence[float | None]


def usage_charts(curves: Curves) -> str:
    """Return a table with charts of CPU and memory for each replica; "" without samples.

    The charts of a column have the same scale.
    """
    measured = {name: curve for name, curve in curves.replicas.items() if not curve.is_empty}
    if not measured:
        return ""
    max_cores = max(1.0, *(_max_or_zero(curve.cores) for curve in measured.values()))
    max_memory = max(1.0, *(_max_or_zero(curve.memory_bytes) for curve in measured.values()))
    rows = [
        (
            text(name),
            _chart(curves.seconds, curve.cores, maximum=max_cores),
            text(f"{_mean(curve.cores):.1f} (max {_max_or_zero(curve.cores):.1f})"),
            _chart(curves.seconds, curve.memory_bytes, maximum=max_memory),
            text(f"{_max_or_zero(curve.memory_bytes) / MIB:,.0f} MiB"),
        )
        for name, curve in measured.items()
    ]
    lasted = span(curves.seconds[-1])
    heads = ("replica", f"CPU over {lasted}", "cores", f"memory over {lasted}", "max")
    return f'<div class="usage">{table(heads, rows)}</div>'


def unmeasured(curves: Curves, names: Sequence[str]) -> str:
    """Return a note on replicas without samples, such as some containers; "" if none has any."""
    missing = [
        name for name in names if curves.seconds and _is_unmeasured(curves.replicas.get(name))
    ]
    if not missing:
        return ""
    return f'<p class="empty">CPU and memory are unknown of {text(", ".join(missing))}</p>'


def _is_unmeasured(curve: Curve | None) -> bool:
    return curve is None or curve.is_empty


def _chart(seconds: Sequence[float], values: Values, *, maximum: float) -> str:
    """Return a line with the area below it, with gaps for missing values."""
    total = max(seconds[-1], 1.0)
    every = -(-len(seconds) // MAX_POINTS)
    # The maximum of each few values, so that peaks stay visible.
    points = [
        (WIDTH * seconds[start] / total, _max(values[start : start + every]))
        for start in range(0, len(seconds), every)
    ]
    areas = []
    for is_known, group in groupby(points, lambda point: point[1] is not None):
        if is_known:
            line = [(x, HEIGHT - HEIGHT * (value or 0.0) / maximum) for x, value in group]
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


def _max(values: Values) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _max_or_zero(values: Values) -> float:
    return _max(values) or 0.0


def _mean(values: Values) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known)
