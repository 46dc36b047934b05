"""Fields for filters and `orderBy` by kind of resource, as in Vertex AI."""

import re
from datetime import UTC, datetime
from typing import Any

from vertex_local import Json
from vertex_local.api.resource_names import ResourcePath
from vertex_local.machine.clock import timestamp

VERSIONS = "versions"
TIMES = ("create_time", "update_time", "start_time", "end_time", "next_run_time")
REQUEST = "create_pipeline_job_request"
RUN_TIMES = ("create_time", "update_time", "start_time", "end_time")
# For instance https://cloud.google.com/python/docs/reference/aiplatform/latest/
# google.cloud.aiplatform_v1.types.ListPipelineJobsRequest. In addition, each kind has labels.
FIELDS = {
    "customJobs": ("display_name", "state", *RUN_TIMES),
    "batchPredictionJobs": ("display_name", "state", *RUN_TIMES),
    "hyperparameterTuningJobs": ("display_name", "state", *RUN_TIMES),
    "trainingPipelines": ("display_name", "state", "training_task_definition", *RUN_TIMES),
    "pipelineJobs": (
        "display_name",
        "state",
        *RUN_TIMES,
        "pipeline_name",
        "pipeline_job_user_id",
        "template_uri",
        "template_metadata.version",
        "schedule_name",
    ),
    "schedules": ("display_name", "state", *TIMES, REQUEST),
    "models": ("display_name", "create_time", "update_time", "model", "base_model_name"),
    VERSIONS: ("create_time", "update_time", "version_id"),
    "endpoints": ("display_name", "create_time", "update_time", "endpoint", "base_model_name"),
    "operations": ("done", "create_time", "update_time"),
}
# Runs as the console lists them, with facts that no request of the API may name.
RUNS = "runs"
FACTS = (
    "outcome",
    "workload",
    "model",
    "metric",
    "value",
    "gain",
    "baseline_gain",
    "seconds",
    "cost",
)
FIELDS[RUNS] = (*FIELDS["pipelineJobs"], *FACTS)
INTERRUPTED = "interrupted"  # the start of a run's error if the service or its runner ended
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
DEFAULT_FIELDS = ("display_name", "create_time", "update_time")
# States of jobs and runs that have not ended.
UNFINISHED = tuple(
    f"{kind}_STATE_{state}"
    for kind in ("JOB", "PIPELINE")
    for state in ("PENDING", "RUNNING", "CANCELLING")
)
COLUMNS = tuple(dict.fromkeys(field for fields in FIELDS.values() for field in fields))


def fields_of(kind: str) -> tuple[str, ...]:
    """Return the fields of a kind, without `labels.KEY`."""
    return FIELDS.get(kind, DEFAULT_FIELDS)


def snake_case(field: str) -> str:
    """Return `display_name` for `displayName`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in field)


def camel_case(field: str) -> str:
    """Return `displayName` for `display_name`."""
    head, *rest = field.split("_")
    return head + "".join(word.capitalize() for word in rest)


def row_of(name: str, body: Json) -> dict[str, str]:
    """Return the value of each column for a resource; "" for fields that it lacks."""
    resource = ResourcePath.from_name(name)
    kind, resource_id = resource.kind, resource.id
    own = {
        "display_name": body.get("displayName", ""),
        "state": body.get("state", ""),
        "pipeline_name": _at(body, "pipelineSpec", "pipelineInfo", "name"),
        "pipeline_job_user_id": resource_id,
        "template_uri": body.get("templateUri", ""),
        "template_metadata.version": _at(body, "templateMetadata", "version"),
        "schedule_name": body.get("scheduleName", ""),
        "model": resource_id,
        "endpoint": resource_id,
        "version_id": body.get("versionId", ""),
        REQUEST: "*" if "createPipelineJobRequest" in body else "",
        "done": "true" if body.get("done") else "false",
        **{field: _stored_time(_time(kind, body, field)) for field in TIMES},
    }
    if kind == "pipelineJobs":
        facts = run_facts(body)
        kind = RUNS
        own |= {name: _sortable(facts.get(name, "")) for name in FACTS}
    return {field: str(own.get(field, "")) if field in fields_of(kind) else "" for field in COLUMNS}


def run_facts(run: Json) -> Json:
    """Return the facts of a run: those that its pipeline says, else what its record shows."""
    state = str(run.get("state", "")).removeprefix("PIPELINE_STATE_").lower()
    return {
        "outcome": INTERRUPTED if _at(run, "error", "message").startswith(INTERRUPTED) else state,
        "workload": _at(run, "runtimeConfig", "parameterValues", "workload")
        or _at(run, "pipelineSpec", "pipelineInfo", "name"),
        "seconds": _seconds(run),
        **(_value_at(run, "jobDetail", "pipelineRunContext", "metadata") or {}),
    }


def _seconds(run: Json) -> float | str:
    try:
        start, end = (datetime.fromisoformat(run[field]) for field in ("createTime", "endTime"))
        return (end - start).total_seconds()
    except (KeyError, ValueError, TypeError):  # it has not ended
        return ""


def _sortable(value: Any) -> str:
    """Return a number as a text in the order of numbers; a text as it is."""
    return f"{value + 1e9:021.9f}" if isinstance(value, int | float) else str(value)


def labels_of(body: Json) -> dict[str, str]:
    """Return the labels by which a resource is filtered; a model has its default version's, too."""
    return {
        str(key): str(value)
        for labels in map(body.get, ("labels", "versionLabels"))
        if isinstance(labels, dict)
        for key, value in labels.items()
    }


def normal_time(text: str) -> str:
    """Return a time in UTC, in a form whose texts compare like times; "" for "".

    A date is its first moment in UTC.

    Raises:
        ValueError: It is not a time with a time zone, or out of range.
    """
    if not text:
        return ""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None and not DATE.fullmatch(text):
        raise ValueError(f"{text!r} has no time zone")
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        return timestamp(moment, timespec="microseconds")
    except OverflowError:
        raise ValueError(f"{text!r} is before the year 1 or after 9999 in UTC") from None


def _stored_time(text: str) -> str:
    try:
        return normal_time(text)
    except ValueError:  # one bad resource must not break lists
        return ""


def _time(kind: str, body: Json, field: str) -> str:
    key = camel_case(field)
    if kind == VERSIONS:
        return str(body.get(f"version{key[0].upper()}{key[1:]}", ""))
    if kind == "operations":
        return _at(body, "metadata", "genericMetadata", key)
    if field == "next_run_time" and body.get("state") != "ACTIVE":
        return ""
    return str(body.get(key, ""))


def _at(body: Any, *keys: str) -> str:
    value = _value_at(body, *keys)
    return "" if value is None else str(value)


def _value_at(body: Any, *keys: str) -> Any:
    for key in keys:
        body = body.get(key) if isinstance(body, dict) else None
    return body
