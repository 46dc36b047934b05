"""Changes that make the existing schedules match the schedule files."""

import copy
import datetime
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.model_version.registry import LRO_TIMEOUT_SECONDS
from components.shared.run_summary.settings import WEBHOOK, without_path
from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import RUN_LABEL, SCHEDULE_LABEL
from pipelines.errors import ResourceError
from pipelines.runs.submit import OWN_PARAMETERS
from pipelines.schedules.plan import DIGEST_LABEL, REQUEST, Wanted
from trainer import Json
from trainer.errors import ConfigError, did_you_mean

COUNTS = ("maxRunCount", "maxConcurrentRunCount", "maxConcurrentActiveRunCount")
TIMES = ("startTime", "endTime")
FIELDS = ("cron", *TIMES, *COUNTS, "allowQueueing", REQUEST)


@dataclass(frozen=True, kw_only=True)
class Change:
    """The change of a schedule.

    `action` is create, update, replace, delete, pause, resume, catch-up or keep; `reasons` describe
    the differences; `fields` are those to update; `existing` is the schedule before the change.
    """

    action: str
    name: str
    reasons: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    wanted: Wanted | None = None
    existing: Json | None = None


def differences(
    wanted: Iterable[Wanted], existing: Iterable[Json], *, now: datetime.datetime
) -> list[Change]:
    """Return the changes, sorted by name, that turn the existing schedules into the wanted ones.

    Raises:
        ConfigError: a schedule to create has its end in the past.
    """
    by_name: dict[str, Json] = {}
    changes = []
    for schedule in existing:
        if schedule["displayName"] in by_name:
            changes.append(_delete(schedule, "duplicate"))
        by_name.setdefault(schedule["displayName"], schedule)
    for planned in wanted:
        changes.append(_difference(planned, by_name.pop(planned.name, None)))
    changes += [_delete(schedule, "no file describes it") for schedule in by_name.values()]
    for change in changes:
        if change.action in ("create", "replace") and change.wanted:
            end = change.wanted.body.get("endTime")
            if end and datetime.datetime.fromisoformat(end) <= now:
                raise ConfigError(f"{change.name}: end: {end} is in the past")
    return sorted(changes, key=lambda change: change.name)


def ours(api: VertexApi) -> list[Json]:
    """Return the schedules that were created from files."""
    return [body for body in api.list_resources("schedules") if SCHEDULE_LABEL in labels_of(body)]


def find(api: VertexApi, name: str) -> Json:
    """Return the schedule with a name.

    Raises:
        ResourceError: there is no such schedule.
    """
    schedules = ours(api)
    for schedule in schedules:
        if schedule["displayName"] == name:
            return schedule
    names = [schedule["displayName"] for schedule in schedules]
    hint, known = did_you_mean(name, names), ", ".join(names) or "none"
    raise ResourceError(f"no schedule {name!r};{hint} schedules: {known}")


def apply_change(api: VertexApi, change: Change) -> None:
    """Carry out the change of a schedule."""
    if change.existing and change.action in ("delete", "replace"):
        delete(api, change.existing)
    if change.action == "update" and change.wanted and change.existing:
        body = {field: change.wanted.body.get(field, False) for field in change.fields}
        mask = ",".join(change.fields)
        api.patch(f"{change.existing['name']}?updateMask={mask}", body)
    if change.wanted is None or change.action == "keep":
        return
    schedule = change.existing or {}
    if change.action in ("create", "replace"):
        schedule = _create(api, change.wanted)
    _set_state(api, schedule, change.wanted)


def pause(api: VertexApi, schedule: Json) -> None:
    """Pause a schedule: no runs start until it is resumed."""
    api.post(f"{schedule['name']}:pause", {}, find=lambda: _if_is(api, schedule, "PAUSED"))


def resume(api: VertexApi, schedule: Json, *, catch_up: bool) -> None:
    """Resume a schedule; with `catch_up`, start the missed runs first."""
    body = {"catchUp": True} if catch_up else {}
    api.post(f"{schedule['name']}:resume", body, find=lambda: _if_is(api, schedule, "ACTIVE"))


def delete(api: VertexApi, schedule: Json) -> None:
    """Delete a schedule; its runs continue."""
    api.wait(api.delete(schedule["name"]), timeout_seconds=LRO_TIMEOUT_SECONDS)


def run_request_of(schedule: Json, *, run: str) -> Json:
    """Return the request for a run of a schedule outside its times, which needs no trigger."""
    job = copy.deepcopy(schedule[REQUEST]["pipelineJob"])
    parameters = job.get("runtimeConfig", {}).get("parameterValues", {})
    if set(parameters) >= OWN_PARAMETERS:
        parameters.pop("trigger", None)
    return {**job, "displayName": run, "labels": {**job["labels"], RUN_LABEL: run}}


def labels_of(schedule: Json) -> dict[str, str]:
    """Return the labels of a schedule's runs."""
    labels: dict[str, str] = schedule.get(REQUEST, {}).get("pipelineJob", {}).get("labels", {})
    return labels


def _create(api: VertexApi, wanted: Wanted) -> Json:
    """Create a schedule; Vertex AI chooses its id, but names are unique among ours."""

    def find() -> Json | None:
        return next((body for body in ours(api) if body["displayName"] == wanted.name), None)

    return api.post(f"{api.parent}/schedules", wanted.body, find=find)


def _if_is(api: VertexApi, schedule: Json, state: str) -> Json | None:
    now = api.get(schedule["name"])
    return now if now["state"] == state else None


def _set_state(api: VertexApi, schedule: Json, wanted: Wanted) -> None:
    """Pause or resume a schedule; catch-up can be changed only by resuming."""
    state = schedule["state"]
    if state == "COMPLETED":
        return
    changes_catch_up = bool(schedule.get("catchUp")) != wanted.catch_up
    if state == "ACTIVE" and (wanted.is_paused or changes_catch_up):
        pause(api, schedule)
    if not wanted.is_paused and (state == "PAUSED" or changes_catch_up):
        resume(api, schedule, catch_up=wanted.catch_up)


def _difference(wanted: Wanted, existing: Json | None) -> Change:
    if existing is None:
        return Change(action="create", name=wanted.name, wanted=wanted)
    fields = tuple(field for field in FIELDS if not _is_same(field, wanted.body, existing))
    reasons = [reason for field in fields for reason in _reasons(field, wanted.body, existing)]
    is_completed = existing["state"] == "COMPLETED"
    # Fields cannot be unset, and completed schedules cannot be updated.
    unset = [field for field in fields if field not in wanted.body and field != "allowQueueing"]
    action = "update" if fields else "keep"
    if unset or (fields and is_completed):
        action = "replace"
    elif not is_completed and wanted.is_paused != (existing["state"] == "PAUSED"):
        reasons.append("paused: " + ("false → true" if wanted.is_paused else "true → false"))
        action = action if fields else ("pause" if wanted.is_paused else "resume")
    elif existing["state"] == "ACTIVE" and bool(existing.get("catchUp")) != wanted.catch_up:
        reasons.append(f"catch_up: {_text(not wanted.catch_up)} → {_text(wanted.catch_up)}")
        action = action if fields else "catch-up"
    return Change(
        action=action,
        name=wanted.name,
        reasons=tuple(reasons),
        fields=fields,
        wanted=wanted,
        existing=existing,
    )


def _is_same(field: str, wanted: Json, existing: Json) -> bool:
    if field == REQUEST:
        digest = wanted[REQUEST]["pipelineJob"]["labels"][DIGEST_LABEL]
        return bool(labels_of(existing).get(DIGEST_LABEL) == digest)
    if field == "startTime" and field not in wanted:
        return True  # Vertex AI sets it to the time of creation
    return bool(_comparable(field, wanted.get(field)) == _comparable(field, existing.get(field)))


def _comparable(field: str, value: Any) -> Any:
    if field == "allowQueueing":
        return bool(value)
    if value is None:
        return None
    if field in TIMES:
        return datetime.datetime.fromisoformat(value)
    return int(value) if field in COUNTS else value


def _reasons(field: str, wanted: Json, existing: Json) -> list[str]:
    if field != REQUEST:
        return [f"{field}: {_text(existing.get(field))} → {_text(wanted.get(field))}"]
    new, old = (_parameters(side) for side in (wanted, existing))
    changed = [name for name in sorted({*new, *old}) if new.get(name) != old.get(name)]
    reasons = [f"{name}: {_text(old.get(name))} → {_text(new.get(name))}" for name in changed]
    return reasons or ["the pipeline itself"]


def _parameters(schedule: Json) -> Json:
    config = schedule.get(REQUEST, {}).get("pipelineJob", {}).get("runtimeConfig", {})
    values: Json = dict(config.get("parameterValues", {}))
    if "workload" in values:  # the path of a snapshot has its digest at the end
        values["workload"] = Path(str(values["workload"])).name
    if url := values.get(WEBHOOK):  # the path may be secret; the digest tells two apart
        digest = hashlib.sha256(str(url).encode()).hexdigest()[:6]
        return {**values, WEBHOOK: f"{without_path(url)} ({digest})"}
    return values


def _text(value: Any) -> str:
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)


def _delete(schedule: Json, reason: str) -> Change:
    return Change(
        action="delete", name=schedule["displayName"], reasons=(reason,), existing=schedule
    )
