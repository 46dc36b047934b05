"""Charts of the CPU and memory of a job's replicas, as coordinates for SVG."""

from collections.abc import Sequence
from itertools import groupby

from vertex_local import Json
from vertex_local.processes.usage.curve import Curves

WIDTH, HEIGHT = 120, 24
MAX_POINTS = 100
MIB = 1024 * 1024

Values = Sequence[float | None]


def charts(curves: Curves) -> list[Json]:
    """Return the charts of each measured replica; those of CPU, and of memory, have one scale."""
    measured = {name: curve for name, curve in curves.replicas.items() if not curve.is_empty}
    max_cores = max(1.0, *(_max(curve.cores) for curve in measured.values()), 0.0)
    max_bytes = max(1.0, *(_max(curve.memory_bytes) for curve in measured.values()), 0.0)
    return [
        {
            "name": name,
            "cores": _lines(curves.seconds, curve.cores, maximum=max_cores),
            "mean_cores": _mean(curve.cores),
            "max_cores": _max(curve.cores),
            "memory": _lines(curves.seconds, curve.memory_bytes, maximum=max_bytes),
            "max_mib": _max(curve.memory_bytes) / MIB,
        }
        for name, curve in measured.items()
    ]


def _lines(seconds: Sequence[float], values: Values, *, maximum: float) -> list[Json]:
    """Return the lines of a chart, with gaps for missing values."""
    total = max(seconds[-1], 1.0)
    every = -(-len(seconds) // MAX_POINTS)
    # The maximum of each few values, so that peaks stay visible.
    points = [
        (WIDTH * seconds[start] / total, _known(values[start : start + every]))
        for start in range(0, len(seconds), every)
    ]
    groups = groupby(points, lambda point: bool(point[1]))
    return [_line([(x, max(known)) for x, known in group], maximum) for has, group in groups if has]


def _line(points: list[tuple[float, float]], maximum: float) -> Json:
    if len(points) == 1:  # a line needs two ends
        points = [points[0], (points[0][0] + 1, points[0][1])]
    text = " ".join(f"{x:.1f},{HEIGHT - HEIGHT * value / maximum:.1f}" for x, value in points)
    return {"points": text, "start": f"{points[0][0]:.1f}", "end": f"{points[-1][0]:.1f}"}


def _known(values: Values) -> list[float]:
    return [value for value in values if value is not None]


def _max(values: Values) -> float:
    return max(_known(values), default=0.0)


def _mean(values: Values) -> float:
    return sum(_known(values)) / len(_known(values))
