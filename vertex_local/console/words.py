"""Times, numbers, states and addresses as pages show them; the filters of the templates."""

import json
import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from vertex_local import Json
from vertex_local.api.resource_names import ResourcePath
from vertex_local.machine.clock import moment_of
from vertex_local.rules.values import defaults_of

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
UNITS = ((1e9, "B"), (1e6, "M"))
MINUTE, HOUR, DAY = 60, 3600, 86400
TONES = (
    dict.fromkeys(("succeeded", "active", "from the cache", "promoted", "approved"), "good")
    | dict.fromkeys(("failed", "crash loop", "timed out", "infeasible"), "bad")
    | dict.fromkeys(("running", "starting", "restarting"), "busy")
    | dict.fromkeys(("pending", "cancelling", "stopping", "paused", "waiting"), "wait")
    | dict.fromkeys(("held", "rejected"), "stop")
)
# Names of measurements that are no metrics, and how these are written.
MEASURES = {
    r"(.*_)?ms(_.*)?": "{} ms",
    r".*_per_second": "{}/s",
    r"(.*_)?seconds": "{} s",
    r"num_.*|.*_count": "{}",
    r"cost": "${}",
}
# What KFP writes before a step's own lines, some hundred lines of JSON.
KFP_INPUT = re.compile(r".*?Got executor_input:\n\{.*?\n\}\n", re.DOTALL)
SECTIONS = {
    "pipelineJobs": "runs",
    "customJobs": "jobs",
    "hyperparameterTuningJobs": "tuning",
    "batchPredictionJobs": "batch",
    **{name: name for name in ("models", "endpoints", "schedules")},
}


def word(state: str) -> str:
    """Return a state as a word: `succeeded` for PIPELINE_STATE_SUCCEEDED."""
    name = str(state).removeprefix("PIPELINE_STATE_").removeprefix("JOB_STATE_")
    return "from the cache" if name == "SKIPPED" else name.lower().replace("_", " ")


def tone(state: str) -> str:
    """Return the colour of a state: good, bad, busy, wait, stop or off."""
    return TONES.get(word(state), "off")


def href(name: str) -> str:
    """Return the address of a resource's page."""
    resource = ResourcePath.from_name(name)
    section, resource_id = SECTIONS[resource.collection], resource.id.partition("@")[0]
    return f"/{section}/{resource.project}/{resource.location}/{resource_id}"


def title(resource: Json) -> str:
    """Return the display name of a resource, or its id."""
    return str(resource.get("displayName") or resource["name"].rpartition("/")[2])


def number(value: Any) -> str:
    """Return a number with four digits that matter, any other value as text."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return "" if value is None else str(value)
    if value == int(value) and abs(value) < 1e15:  # noqa: PLR2004
        return f"{int(value):,}"
    if abs(value) >= 1e4:  # noqa: PLR2004
        return f"{value:,.0f}"
    if abs(value) >= 1e-6:  # noqa: PLR2004
        return f"{Decimal(f'{value:.4g}'):,f}"
    factor, _, power = f"{value:.3e}".partition("e")
    return f"{float(factor):g}·10{str(int(power)).translate(SUPERSCRIPTS)}"


def short(value: float) -> str:
    """Return a number for the axis of a chart: `64.74M`."""
    for unit, suffix in UNITS:
        if abs(value) >= unit:
            return f"{number(float(f'{value / unit:.4g}'))}{suffix}"
    return number(value)


def measure(name: str, value: Any) -> str:
    """Return a count, or a measurement with its unit; "" of anything that is no such name."""
    forms = (form for pattern, form in MEASURES.items() if re.fullmatch(pattern, name))
    return next(forms, "").format(number(value))


def own_log(text: str) -> tuple[str, str]:
    """Return what KFP writes before a step begins, "" if it did not, and the step's own log."""
    match = KFP_INPUT.match(text)
    return (match[0], text[match.end() :]) if match else ("", text)


def last_line(text: str) -> str:
    """Return the last line with text, which is the most specific of an error."""
    return next(filter(str.strip, reversed(str(text).splitlines())), "").strip()


def exact(value: Any) -> str:
    """Return a parameter as it was set: a text as it is, any other value, and "", as JSON."""
    if isinstance(value, float) and value.is_integer():  # an integer, in JSON of a proto
        value = int(value)
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def settings(run: Json) -> dict[str, Any]:
    """Return the parameters of a run with defaults; those that are a JSON object by their keys."""
    defaults = defaults_of(run.get("pipelineSpec", {}).get("root", {}))
    values = defaults | run.get("runtimeConfig", {}).get("parameterValues", {})
    return {name: value for name, value in sorted(_flat(values).items()) if value not in ("", None)}


def json_object(text: Any) -> Json | None:
    """Return the JSON object in a text; None for any other text."""
    try:
        content = json.loads(text)
    except (ValueError, TypeError):
        return None
    return content if isinstance(content, dict) else None


def ago(time: str) -> str:
    """Return "3 min ago"; "" without a time."""
    return f"{' '.join(span(seconds_between(time, '')).split()[:2])} ago" if time else ""


def elapsed(start: str, end: str = "") -> str:
    """Return the duration from `start` to `end`, or to now if `end` is empty."""
    return span(seconds_between(start, end)) if start else ""


def seconds_between(start: str, end: str) -> float:
    """Return the seconds from `start` to `end`, or to now if `end` is empty."""
    last = moment_of(end) if end else datetime.now(UTC)
    return max(0.0, (last - moment_of(start)).total_seconds())


def span(seconds: float) -> str:
    """Return a duration as `0.8 s`, `42 s`, `3 min 5 s`, `2 h 10 min` or `4 d`."""
    if seconds < 10:  # noqa: PLR2004
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE} s"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE} min"
    return f"{whole // DAY} d"


def _flat(values: Json, prefix: str = "") -> Json:
    flat: Json = {}
    for key, value in values.items():
        content = value if isinstance(value, dict) else json_object(value)
        path = f"{prefix}{key}"
        flat |= {path: value} if content is None else _flat(content, f"{path}.")
    return flat


FILTERS = {
    function.__name__: function
    for function in (
        ago,
        elapsed,
        exact,
        href,
        last_line,
        number,
        settings,
        short,
        span,
        title,
        tone,
        word,
    )
}
