"""Times, numbers, states and addresses as the console shows them."""

import math
from datetime import UTC, datetime
from typing import Any

from vertex_local.api.resource_names import ResourceName
from vertex_local.machine.clock import moment_of

MINUTE, HOUR, DAY = 60, 3600, 86400
GOOD, BAD, BUSY, WAIT, OFF = "good", "bad", "busy", "wait", "off"
TONES = {
    **dict.fromkeys(("succeeded", "active", "cached", "from the cache"), GOOD),
    **dict.fromkeys(("failed", "crash loop", "timed out", "infeasible"), BAD),
    **dict.fromkeys(("running", "starting", "restarting"), BUSY),
    **dict.fromkeys(("pending", "cancelling", "stopping", "paused"), WAIT),
}
SECTIONS = {
    "pipelineJobs": "runs",
    "customJobs": "jobs",
    "hyperparameterTuningJobs": "tuning",
    "models": "models",
    "endpoints": "endpoints",
    "schedules": "schedules",
}


def word(state: str) -> str:
    """Return a state as a word: `succeeded` for PIPELINE_STATE_SUCCEEDED."""
    name = state.removeprefix("PIPELINE_STATE_").removeprefix("JOB_STATE_")
    return "from the cache" if name == "SKIPPED" else name.lower().replace("_", " ")


def tone(state: str) -> str:
    """Return the colour of a state: good, bad, busy, wait or off."""
    return TONES.get(word(state), OFF)


def href(name: str) -> str:
    """Return the address of a resource's page."""
    resource = ResourceName.from_name(name)
    section = SECTIONS.get(resource.collection)
    if not section:
        return f"/v1/{name}"
    return f"/{section}/{resource.project}/{resource.location}/{resource.id.partition('@')[0]}"


def id_of(name: str) -> str:
    """Return the id of a resource."""
    return name.rpartition("/")[2]


def number(value: Any) -> str:
    """Return a number with four digits that matter, any other value as text."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return "" if value is None else str(value)
    if value == int(value) and abs(value) < 1e15:  # noqa: PLR2004
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"  # noqa: PLR2004


def memory(num_bytes: float) -> str:
    """Return bytes as MB or GB."""
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.0f} MB"  # noqa: PLR2004


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
