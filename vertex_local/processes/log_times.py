"""Times of the lines of a log, which processes write themselves and without times.

The supervisor records the size of each growing log with the time, once a second. A line has the
time of the first record after it, which is at most a second late.
"""

from bisect import bisect_right
from contextlib import suppress
from pathlib import Path

from vertex_local.machine.clock import now, timestamp

SAMPLE_SECONDS = 1.0


class LogClock:
    """Recorder of the sizes of logs over time."""

    def __init__(self, logs: list[Path]) -> None:
        self._sizes = {path: _size(path) for path in logs}

    def record(self) -> None:
        """Record size and time of each log that has grown since the last call."""
        for path, before in self._sizes.items():
            size = _size(path)
            if size > before:
                self._sizes[path] = size
                with suppress(OSError), _times_path(path).open("a") as file:
                    file.write(f"{size} {now(timespec='milliseconds')}\n")


class LineTimes:
    """Times of the lines of one log."""

    def __init__(self, log: Path) -> None:
        self._last = ""
        self._sizes: list[int] = []
        self._times: list[str] = []
        with suppress(OSError):
            self._last = timestamp(log.stat().st_mtime, timespec="milliseconds")
            for line in _times_path(log).read_text().splitlines():
                size, _, moment = line.partition(" ")
                self._sizes.append(int(size))
                self._times.append(moment)

    def at(self, offset: int) -> str:
        """Return the time of the line that begins at this byte."""
        index = bisect_right(self._sizes, offset)
        return self._times[index] if index < len(self._times) else self._last


def _times_path(log: Path) -> Path:
    return log.with_suffix(".times")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
