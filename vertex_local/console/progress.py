"""Progress of a training: the numbers in `logs/metrics.jsonl` below a job's output folder."""

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from vertex_local import Json
from vertex_local.machine.files import local_path

FILE = "logs/metrics.jsonl"
MAX_BYTES = 4_000_000
NOT_DRAWN = ("step", "time")
Series = dict[str, list[tuple[float, float]]]


def series_of(folder_uri: str) -> Series:
    """Return points by metric: `loss` of the training, `eval loss` of another split."""
    series: Series = defaultdict(list)
    for line in _lines(folder_uri):
        split = line.get("split", "train")
        prefix = "" if split == "train" else f"{split} "
        for name, value in line.items():
            if name not in NOT_DRAWN and _is_number(value) and _is_number(line.get("step")):
                series[f"{prefix}{name}"].append((line["step"], value))
    return series


def steps_per_second(series: Series) -> float | None:
    """Return the speed that the newest line says, from `steps_per_second` or `step_ms`."""
    if speeds := series.get("steps_per_second"):
        return speeds[-1][1]
    times = series.get("step_ms")
    return 1000 / times[-1][1] if times and times[-1][1] else None


def _lines(folder_uri: str) -> Iterator[Json]:
    folder = local_path(folder_uri) if folder_uri else None
    path = folder / FILE if folder else Path()
    if not path.is_file():
        return
    with path.open("rb") as file:
        for text in file.read(MAX_BYTES).splitlines():
            try:
                line = json.loads(text)
            except ValueError:  # it is being written
                continue
            if isinstance(line, dict):
                yield line


def _is_number(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)  # type: ignore[arg-type]
