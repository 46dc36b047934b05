"""HTML fragments; all text from resources is escaped here."""

from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape

from vertex_local import Json
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
    """Return escaped text."""
    return escape(str(value), quote=True)


def pill(state: str) -> str:
    """Return a state as a coloured label: "running" for `PIPELINE_STATE_RUNNING`."""
    word = state.removeprefix("PIPELINE_STATE_").removeprefix("JOB_STATE_").upper()
    tone = TONES.get(word, "off")
    return f'<span class="pill {tone}">{text(word.lower().replace("_", " "))}</span>'


def link(name: str, label: str) -> str:
    """Return a link to a resource's JSON."""
    return f'<a href="/v1/{text(name)}">{text(label)}</a>'


def labels(resource: Json) -> str:
    """Return a resource's labels as chips, without those that Vertex AI sets."""
    pairs = sorted(resource.get("labels", {}).items())
    return chips(f"{key}={value}" for key, value in pairs if not key.startswith("vertex-ai-"))


def chips(words: Iterable[str]) -> str:
    """Return words in boxes; `default` is highlighted."""
    return "".join(
        f'<span class="chip{" first" if word == "default" else ""}">{text(word)}</span>'
        for word in words
    )


def ago(time: str) -> str:
    """Return "3 min ago", with the exact time as a tooltip."""
    if not time:
        return ""
    words = span(seconds_between(time, "")).split()
    return f'<time title="{text(time)}">{text(" ".join(words[:2]))} ago</time>'


def elapsed(start: str, end: str) -> str:
    """Return the duration from `start` to `end`, or to now if `end` is empty."""
    return span(seconds_between(start, end)) if start else ""


def seconds_between(start: str, end: str) -> float:
    """Return the seconds from `start` to `end`, or to now if `end` is empty."""
    last = moment(end) if end else datetime.now(UTC)
    return max(0.0, (last - moment(start)).total_seconds())


def span(seconds: float) -> str:
    """Return a duration as `0.8 s`, `42 s`, `3 min 5 s`, `2 h 10 min` or `4 d`."""
    if seconds < MINUTE:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004
    if seconds < HOUR:
        return f"{seconds // MINUTE:.0f} min {seconds % MINUTE:.0f} s"
    if seconds < DAY:
        return f"{seconds // HOUR:.0f} h {seconds % HOUR // MINUTE:.0f} min"
    return f"{seconds // DAY:.0f} d"


def moment(time: str) -> datetime:
    """Parse a timestamp of Google's JSON; return the current time if it is not valid."""
    try:
        return moment_of(time)
    except ValueError:
        return datetime.now(UTC)


def table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table; the cells are HTML."""
    head = "".join(f"<th>{text(one)}</th>" for one in heads)
    body = "".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'
