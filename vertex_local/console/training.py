"""Progress of a training, and lines over steps, drawn as SVG."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from vertex_local import Json
from vertex_local.console import words
from vertex_local.machine.files import local_path

FILE = "logs/metrics.jsonl"  # below a job's output folder
MAX_BYTES = 4_000_000
NOT_DRAWN = ("step", "time")
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 420, 170, 70, 22, 10, 8  # the axes are in macros.html
MAX_POINTS = 500
Points = Sequence[tuple[float, float]]


def series_of(job: Json) -> dict[str, Points]:
    """Return points by metric: `loss` of the training, `eval loss` of another split."""
    output = job.get("jobSpec", {}).get("baseOutputDirectory", {}).get("outputUriPrefix", "")
    path = (local_path(output) or Path()) / FILE
    series = defaultdict(list)
    for text in path.read_bytes()[:MAX_BYTES].splitlines() if path.is_file() else ():
        line = words.json_object(text) or {}  # {} of a line that is being written
        prefix = "" if line.get("split", "train") == "train" else f"{line['split']} "
        for name, value in line.items():
            if name not in NOT_DRAWN and isinstance(value, int | float) and math.isfinite(value):
                series[f"{prefix}{name}"].append((float(line.get("step", 0)), float(value)))
    return dict(series)


def charts(series: Sequence[Mapping[str, Points]]) -> list[Json]:
    """Return a chart per metric with a line for each run; runs are numbered as in `series`."""
    names = dict.fromkeys(name for of_run in series for name in of_run)
    return [
        _chart(name, lines)
        for name in names
        if max(map(len, lines := [of_run.get(name, ()) for of_run in series])) > 1
    ]


def _chart(title: str, lines: Sequence[Points]) -> Json:
    steps, values = zip(*(point for line in lines for point in line), strict=True)
    low, high, last = min(values), max(values), max(steps)
    x_scale = (WIDTH - LEFT - RIGHT) / (last or 1)
    y_scale = (HEIGHT - TOP - BOTTOM) / ((high - low) or 1)

    def path_of(line: Points) -> str:
        thinned = [*line[:: max(1, len(line) // MAX_POINTS)], *line[-1:]]
        ends = (f"{LEFT + x * x_scale:.1f} {TOP + (high - y) * y_scale:.1f}" for x, y in thinned)
        return f"M{'L'.join(ends)}" if line else ""

    return {"title": title, "lines": [*map(path_of, lines)], "low": low, "high": high, "last": last}
