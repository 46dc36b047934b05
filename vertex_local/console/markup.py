"""Pieces of HTML; everything that comes from outside is escaped here."""

from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape

from vertex_local.json_types import Json
from vertex_local.machine.clock import moment_of

MINUTE, HOUR, DAY = 60, 3600, 86400
TONES = {
    "SUCCEEDED": "good",
    "ACTIVE": "good",
    "CACHED": "good",
    "RUNNING": "busy",
    "STARTING": "busy",
    "PENDING": "wait",
    "CANCELLING": "wait",
    "CANCELLED": "off",
    "RESTARTING": "busy",
    "FAILED": "bad",
    "CRASH_LOOP": "bad",
    "TIMED_OUT": "bad",
}


def text(value: object) -> str:
    """Escaped text."""
    return escape(str(value), quote=True)


def pill(state: str) -> str:
    """A state as a coloured word: `PIPELINE_STATE_RUNNING` is shown as running."""
    word = state.removeprefix("PIPELINE_STATE_").removeprefix("JOB_STATE_").upper()
    tone = TONES.get(word, "off")
    return f'<span class="pill {tone}">{text(word.lower().replace("_", " "))}</span>'


def link(name: str, label: str) -> str:
    """A link to a resource's JSON."""
    return f'<a href="/v1/{text(name)}">{text(label)}</a>'


def labels(resource: Json) -> str:
    """A resource's labels as chips; those that Vertex AI itself gives are left out."""
    pairs = sorted(resource.get("labels", {}).items())
    return chips(f"{key}={value}" for key, value in pairs if not key.startswith("vertex-ai-"))


def chips(words: Iterable[str]) -> str:
    """Words in boxes; `default` stands out."""
    return "".join(
        f'<span class="chip{" first" if word == "default" else ""}">{text(word)}</span>'
        for word in words
    )


def ago(time: str) -> str:
    """`3 min ago`, with the exact time on hovering."""
    if not time:
        return ""
    words = span(seconds_between(time, "")).split()
    return f'<time title="{text(time)}">{text(" ".join(words[:2]))} ago</time>'


def elapsed(start: str, end: str) -> str:
    """How long something took, or has taken so far."""
    return span(seconds_between(start, end)) if start else ""


def seconds_between(start: str, end: str) -> float:
    """Seconds from `start` to `end`, or to now where that is empty."""
    last = moment(end) if end else datetime.now(UTC)
    return max(0.0, (last - moment(start)).total_seconds())


def span(seconds: float) -> str:
    """`0.8 s`, `42 s`, `3 min 5 s`, `2 h 10 min`, `4 d`."""
    if seconds < MINUTE:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004
    if seconds < HOUR:
        return f"{seconds // MINUTE:.0f} min {seconds % MINUTE:.0f} s"
    if seconds < DAY:
        return f"{seconds // HOUR:.0f} h {seconds % HOUR // MINUTE:.0f} min"
    return f"{seconds // DAY:.0f} d"


def moment(time: str) -> datetime:
    """A time of Google's JSON; one that cannot be read counts as now."""
    try:
        return moment_of(time)
    except ValueError:
        return datetime.now(UTC)


def table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table of cells that are HTML already."""
    head = "".join(f"<th>{text(one)}</th>" for one in heads)
    body = "".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'
