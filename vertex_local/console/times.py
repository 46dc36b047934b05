"""Times and durations as the console shows them."""

from datetime import UTC, datetime

from vertex_local.machine.clock import moment_of

MINUTE, HOUR, DAY = 60, 3600, 86400


def ago(time: str) -> str:
    """Return "3 min ago"; "" without a time."""
    return f"{' '.join(span(seconds_between(time, '')).split()[:2])} ago" if time else ""


def elapsed(start: str, end: str) -> str:
    """Return the duration from `start` to `end`, or to now if `end` is empty."""
    return span(seconds_between(start, end)) if start else ""


def seconds_between(start: str, end: str) -> float:
    """Return the seconds from `start` to `end`, or to now if `end` is empty."""
    last = _moment(end) if end else datetime.now(UTC)
    return max(0.0, (last - _moment(start)).total_seconds())


def span(seconds: float) -> str:
    """Return a duration as `0.8 s`, `42 s`, `3 min 5 s`, `2 h 10 min` or `4 d`."""
    if seconds < MINUTE:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004
    if seconds < HOUR:
        return f"{seconds // MINUTE:.0f} min {seconds % MINUTE:.0f} s"
    if seconds < DAY:
        return f"{seconds // HOUR:.0f} h {seconds % HOUR // MINUTE:.0f} min"
    return f"{seconds // DAY:.0f} d"


def _moment(time: str) -> datetime:
    """Parse a timestamp of Google's JSON; return the current time if it is not valid."""
    try:
        return moment_of(time)
    except ValueError:
        return datetime.now(UTC)
