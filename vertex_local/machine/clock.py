"""Time: timestamps as Google's APIs write them, and the clock that schedules go by."""

import threading
from datetime import UTC, datetime

MIN_WAIT_SECONDS = 0.02
MAX_WAIT_SECONDS = 30.0  # the system clock may be set while a schedule waits


class Clock:
    """Clock that starts at the present and runs `speed` times as fast as real time."""

    def __init__(self, speed: float = 1.0) -> None:
        self.speed = speed
        self._start = datetime.now(UTC)

    def now(self) -> datetime:
        """Return this clock's time, in UTC."""
        return self._start + (datetime.now(UTC) - self._start) * self.speed

    def wait(self, event: threading.Event, *, until: datetime | None) -> None:
        """Wait for `event` or until this clock's time `until`, but 30 s at most."""
        seconds = MAX_WAIT_SECONDS
        if until is not None:
            seconds = (until - self.now()).total_seconds() / self.speed
        event.wait(min(max(seconds, MIN_WAIT_SECONDS), MAX_WAIT_SECONDS))


def now(*, timespec: str = "microseconds") -> str:
    """Return the present as a timestamp: `2026-01-31T12:00:00.123456Z`."""
    return timestamp(datetime.now(UTC), timespec=timespec)


def timestamp(moment: datetime | float, *, timespec: str = "auto") -> str:
    """Return a moment, seconds since 1970 or with its zone, as Google's: `2026-01-31T12:00:00Z`.

    The `timespec` "auto" writes a fraction only if there is one.
    """
    if not isinstance(moment, datetime):
        moment = datetime.fromtimestamp(moment, UTC)
    return moment.astimezone(UTC).isoformat(timespec=timespec).removesuffix("+00:00") + "Z"


def moment_of(text: str) -> datetime:
    """Return the moment of a timestamp in Google's JSON, in UTC."""
    return datetime.fromisoformat(text).astimezone(UTC)
