"""CPU and memory samples of a job's replicas, which only the local service keeps."""

from collections.abc import Sequence
from dataclasses import dataclass

from trainer import Json

BARS = "▁▂▃▄▅▆▇█"
MEBIBYTE = 1024 * 1024

Values = Sequence[float | None]


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Busy cores and memory of one replica at each sample, None while it was not running."""

    name: str
    seconds: Sequence[float]
    cores: Values
    memory_bytes: Values


def usages_of(replicas: Json | None) -> list[Usage]:
    """Return the samples in a response of `…/customJobs/ID/replicas`; none on Vertex AI."""
    seconds = (replicas or {}).get("usageSeconds", [])
    return [
        Usage(
            name=replica["name"],
            seconds=seconds,
            cores=replica["usage"]["cores"],
            memory_bytes=replica["usage"]["memoryBytes"],
        )
        for replica in (replicas or {}).get("replicas", [])
        if seconds and "usage" in replica
    ]


def maximum(values: Values) -> float:
    """Return the largest known value, or 0."""
    return max((value for value in values if value is not None), default=0.0)


def mean(values: Values) -> float:
    """Return the mean of the known values, or 0."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else 0.0


def shorten(values: Values, num_values: int) -> list[float | None]:
    """Reduce values to at most `num_values`, the maximum of each group."""
    size = -(-len(values) // num_values) or 1
    groups = (values[start : start + size] for start in range(0, len(values), size))
    return [maximum(group) if any(v is not None for v in group) else None for group in groups]


def sparkline(values: Values, *, highest: float, width: int = 32) -> str:
    """Return values as a line of bars from zero to `highest`, with a space for None."""
    return "".join(
        " " if value is None else BARS[min(7, int(8 * value / highest))] if highest else BARS[0]
        for value in shorten(values, width)
    )
