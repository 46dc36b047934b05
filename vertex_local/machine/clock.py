"""The time that schedules go by: the real one, or a faster one that shows nights in seconds."""

import threading
from datetime import UTC, datetime

LEAST_WAIT_SECONDS = 0.02
MOST_WAIT_SECONDS = 30.0  # somebody may set this machine's clock meanwhile


class Clock:
    """Starts at the present moment and goes `speed` times as fast as the real time."""

    def __init__(self, speed: float = 1.0) -> None:
        self.speed = speed
        self._start = datetime.now(UTC)

    def now(self) -> datetime:
        """This clock's moment, in UTC."""
        return self._start + (datetime.now(UTC) - self._start) * self.speed

    def wait(self, event: threading.Event, *, until: datetime | None) -> None:
        """Waits for `event`, or until this clock's moment `until`, or half a minute at the most."""
        seconds = MOST_WAIT_SECONDS
        if until is not None:
            seconds = (until - self.now()).total_seconds() / self.speed
        event.wait(min(max(seconds, LEAST_WAIT_SECONDS), MOST_WAIT_SECONDS))


def stamp(moment: datetime) -> str:
    """As Google writes it: `2026-01-31T12:00:00Z`, with a fraction where there is one."""
    pattern = "%Y-%m-%dT%H:%M:%S.%fZ" if moment.microsecond else "%Y-%m-%dT%H:%M:%SZ"
    return moment.astimezone(UTC).strftime(pattern)


def moment_of(text: str) -> datetime:
    """The moment of a timestamp in Google's JSON."""
    return datetime.fromisoformat(text).astimezone(UTC)
