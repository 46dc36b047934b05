"""The samples that the service on this machine keeps of each replica of a job."""

from collections.abc import Sequence
from dataclasses import dataclass

from trainer.json_types import Json

BARS = "▁▂▃▄▅▆▇█"
MEBIBYTE = 1024 * 1024

Values = Sequence[float | None]


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What one replica uses: cores kept busy and bytes taken, None where it was not running."""

    name: str
    seconds: Sequence[float]
    cores: Values
    memory_bytes: Values


def usages_of(told: Json | None) -> list[Usage]:
    """Return the samples in the response of `…/customJobs/ID/replicas`; none on Vertex AI."""
    seconds = (told or {}).get("usageSeconds", [])
    return [
        Usage(
            name=replica["name"],
            seconds=seconds,
            cores=replica["usage"]["cores"],
            memory_bytes=replica["usage"]["memoryBytes"],
        )
        for replica in (told or {}).get("replicas", [])
        if seconds and "usage" in replica
    ]


def most(values: Values) -> float:
    """Return the largest value that is known, or 0."""
    return max((value for value in values if value is not None), default=0.0)


def mean(values: Values) -> float:
    """Return the mean of those that are known, or 0."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else 0.0


def shorten(values: Values, num_values: int) -> list[float | None]:
    """Return at most so many values: the largest of each few, so that no peak is lost."""
    size = -(-len(values) // num_values) or 1
    parts = (values[start : start + size] for start in range(0, len(values), size))
    return [most(part) if any(value is not None for value in part) else None for part in parts]


def sparkline(values: Values, *, highest: float, width: int = 32) -> str:
    """Return a line of bars from zero to `highest`; a space where nothing is known."""
    return "".join(
        " " if value is None else BARS[min(7, int(8 * value / highest))] if highest else BARS[0]
        for value in shorten(values, width)
    )
