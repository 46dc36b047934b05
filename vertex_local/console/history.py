"""Events of model versions, and their states, which labels and descriptions tell."""

import re

from vertex_local import Json
from vertex_local.machine.clock import moment_of

LINE = re.compile(r"\[(?P<time>\S+Z) (?P<what>.+?) by (?P<by>\S+)\] ?(?P<why>.*)")
LABEL = re.compile(r"\w+?_([a-z]+)_(\d{4})(\d\d)(\d\d)t(\d\d)(\d\d)(\d\d)(\d{3})z")
STATE = "_state"


def with_history(version: Json) -> Json:
    """Return a version with its `state` and `events`, the newest first, and the other texts.

    An event has `time`, `what`, `by` and perhaps `why`; `notes` are the other lines of the
    description.
    """
    lines = str(version.get("versionDescription", "")).splitlines()
    labels: dict[str, str] = version.get("labels", {})
    told = {line: event for line in lines if (event := _event_of_line(line))}
    labelled = {key: event for key in labels if (event := _event_of_label(key, labels[key]))}
    events = [*told.values(), *labelled.values()]
    return {
        **version,
        "events": sorted(events, key=lambda event: event["time"], reverse=True),
        "notes": [line for line in lines if line not in told],
        "labels": {key: value for key, value in labels.items() if key not in labelled},
        "state": next((labels[key] for key in labels if key.endswith(STATE)), ""),
    }


def _event_of_line(line: str) -> Json | None:
    match = LINE.fullmatch(line)
    return match.groupdict() if match and _is_time(match["time"]) else None


def _event_of_label(key: str, value: str) -> Json | None:
    if not (match := LABEL.fullmatch(key)):
        return None
    what, *digits = match.groups()
    time = "{}-{}-{}T{}:{}:{}.{}Z".format(*digits)
    event = {"time": time, "what": what, "why": value.replace("_", " ")}
    return event if _is_time(time) else None


def _is_time(text: str) -> bool:
    try:
        return bool(moment_of(text))
    except ValueError:  # a person wrote it
        return False
