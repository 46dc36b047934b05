"""Usage curve of a group: a file of at most `MAX_SAMPLES` samples, however long the group runs.

FOLDER/usage.jsonl begins with {"names": […], "started": TIME}; each further line is a sample:
[seconds since then, cores and bytes of the first replica, of the second one …], with null for a
replica that does not run. `cores` is the mean number of busy cores since the sample before. When
the file is full, pairs of samples are merged, and the interval between samples doubles.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from vertex_local.machine.clock import now
from vertex_local.processes.usage.meters import Reading

MAX_SAMPLES = 600
CURVE_FILE = "usage.jsonl"
# Calls may come a little early; without a tolerance every second one would be skipped.
_TOLERANCE_SECONDS = 0.1

Row = list[float | int | None]
Readings = Mapping[str, Reading | None]


class CurveWriter:
    """Samples the replicas of a group about once a second, less often as the file fills."""

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path, self._names, self._clock = folder / CURVE_FILE, list(names), clock
        self._start = self._last = clock()
        self._rows: list[Row] = []
        self._seconds = 1.0
        self._before: Readings = {}
        self._header = json.dumps({"names": self._names, "started": now(timespec="milliseconds")})
        self._is_new = True

    def sample(self, read: Callable[[], Readings]) -> None:
        """Take a sample if one is due; `read` returns the readings of the replicas by name."""
        moment = self._clock()
        if moment - self._last < self._seconds - _TOLERANCE_SECONDS:
            return
        readings, passed = read(), moment - self._last
        row: Row = [round(moment - self._start, 1)]
        for name in self._names:
            row += self._values(name, readings.get(name), passed)
        self._before, self._last = readings, moment
        self._rows.append(row)
        with suppress(OSError):  # a full disk must not end a job
            self._write(row)

    def _values(self, name: str, reading: Reading | None, passed: float) -> Row:
        if reading is None:
            return [None, None]
        before = self._before.get(name)
        used = reading.cpu_seconds - (before.cpu_seconds if before else 0.0)
        # The total can fall: the time of a child that its parent did not reap is lost.
        return [round(max(0.0, used) / passed, 3), reading.memory_bytes]

    def _write(self, row: Row) -> None:
        if len(self._rows) > MAX_SAMPLES:
            pairs = zip(self._rows[::2], self._rows[1::2], strict=False)
            last = self._rows[len(self._rows) // 2 * 2 :]
            self._rows = [_merge(*pair) for pair in pairs] + last
            self._seconds *= 2
            self._is_new = True
        if not self._is_new:
            with self._path.open("a") as file:
                file.write(f"{json.dumps(row)}\n")
            return
        draft = self._path.with_suffix(".tmp")
        draft.write_text("\n".join([self._header, *map(json.dumps, self._rows), ""]))
        draft.replace(self._path)
        self._is_new = False


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Samples of one replica; None where it was not running."""

    cores: list[float | None] = field(default_factory=list)
    memory_bytes: list[int | None] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """True if no sample has a value."""
        return all(value is None for value in self.cores)


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Samples of a group: `seconds` since its start, and a curve by replica."""

    started: str = ""
    seconds: list[float] = field(default_factory=list)
    replicas: dict[str, Curve] = field(default_factory=dict)


def read_curves(folder: Path) -> Curves:
    """Return the curves of a group's folder; empty if there are none."""
    path = folder / CURVE_FILE
    try:
        stat = path.stat()
        return _read(path, stat.st_mtime_ns, stat.st_size)
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return Curves()


@lru_cache(maxsize=64)
def _read(path: Path, _modified: int, _size: int) -> Curves:
    header, *lines = path.read_text().split("\n")
    names: list[str] = json.loads(header)["names"]
    rows = [json.loads(line) for line in lines[:-1]]  # the last one is empty or incomplete
    return Curves(
        started=json.loads(header)["started"],
        seconds=[row[0] for row in rows],
        replicas={
            name: Curve(
                cores=[row[1 + 2 * index] for row in rows],
                memory_bytes=[row[2 + 2 * index] for row in rows],
            )
            for index, name in enumerate(names)
        },
    )


def _merge(first: Row, second: Row) -> Row:
    """Merge two samples: the mean of the cores, the maximum of the memory."""
    merged: Row = [second[0]]
    for index in range(1, len(first), 2):
        cores = [row[index] for row in (first, second) if row[index] is not None]
        sizes = [row[index + 1] for row in (first, second) if row[index + 1] is not None]
        merged.append(round(sum(filter(None, cores)) / len(cores), 3) if cores else None)
        merged.append(max(filter(None, sizes), default=0) if sizes else None)
    return merged
