"""Changes that make the existing schedules match the schedule files."""

import copy
import dataclasses
import datetime
from collections.abc import Iterable
from dataclasses import dataclass

from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import RUN_LABEL, SCHEDULE_LABEL
from pipelines.resources.names import not_found
from pipelines.runs.submit import OWN_PARAMETERS
from pipelines.schedules.plan import DIGEST_LABEL, REQUEST, Wanted
from trainer import Json
from trainer.errors import ConfigError

LASTING = {"endTime", "maxRunCount"}  # an update cannot unset them
FIELDS = (
    "cron",
    "startTime",
    "endTime",
    "maxRunCount",
    "maxConcurrentRunCount",
    "maxConcurrentActiveRunCount",
    "allowQueueing",
    REQUEST,
)


@dataclass(frozen=True, kw_only=True)
class Change:
    """The change of a schedule.

    `action` is create, change, delete or keep; `existing` is the schedule before the change;
    `detail` is its cron expression, or why it is deleted.
    """

    action: str
    name: str
    detail: str
    wanted: Wanted | None = None
    existing: Json | None = None


def differences(
    wanted: Iterable[Wanted], existing: Iterable[Json], *, now: datetime.datetime
) -> list[Change]:
    """Return the changes, sorted by name, that turn the existing schedules into the wanted ones.

    Raises:
        ConfigError: a schedule to create or change has its end in the past.
    """
    by_name: dict[str, Json] = {}
    changes = []
    for schedule in existing:
        if schedule["displayName"] in by_name:
            changes.append(_delete(schedule, "a duplicate"))
        by_name.setdefault(schedule["displayName"], schedule)
    for planned in wanted:
        changes.append(_difference(planned, by_name.pop(planned.name, None), now=now))
    changes += [_delete(schedule, "no file describes it") for schedule in by_name.values()]
    return sorted(changes, key=lambda change: change.name)


def ours(api: VertexApi) -> list[Json]:
    """Return the schedules that were created from files."""
    return [body for body in api.list_resources("schedules") if SCHEDULE_LABEL in labels_of(body)]


def find(api: VertexApi, name: str) -> Json:
    """Return the schedule with a name.

    Raises:
        VertexError: NOT_FOUND; names the schedules that exist.
    """
    schedules = ours(api)
    for schedule in schedules:
        if schedule["displayName"] == name:
            return schedule
    raise not_found("schedule", name, [schedule["displayName"] for schedule in schedules])


def apply_change(api: VertexApi, change: Change) -> None:
    """Carry out the change of a schedule, under its id if an update can make it."""
    existing, wanted = change.existing, change.wanted
    if change.action == "keep":
        return
    if existing and (wanted is None or not _can_be_updated(existing, wanted)):
        delete(api, existing)
        existing = None
    if wanted is None:
        return
    if existing and not _has_fields(existing, wanted):
        body = {"allowQueueing": False, **wanted.body}
        fields = {field: body[field] for field in FIELDS if field in body}
        api.patch(f"{existing['name']}?updateMask={','.join(fields)}", fields)
    _set_state(api, existing or _create(api, wanted), wanted)


def pause(api: VertexApi, schedule: Json) -> None:
    """Pause a schedule: no runs start until it is resumed."""
    api.post(f"{schedule['name']}:pause", {}, find=lambda: _if_is(api, schedule, "PAUSED"))


def resume(api: VertexApi, schedule: Json, *, catch_up: bool) -> None:
    """Resume a schedule; with `catch_up`, start the missed runs first."""
    body = {"catchUp": True} if catch_up else {}
    api.post(f"{schedule['name']}:resume", body, find=lambda: _if_is(api, schedule, "ACTIVE"))


def delete(api: VertexApi, schedule: Json) -> None:
    """Delete a schedule; its runs continue."""
    api.wait(api.delete(schedule["name"]))


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


def _difference(wanted: Wanted, existing: Json | None, *, now: datetime.datetime) -> Change:
    action = "create"
    if existing:
        if wanted.is_paused is None:
            wanted = dataclasses.replace(wanted, is_paused=existing["state"] == "PAUSED")
        is_same = _has_fields(existing, wanted) and _has_state(existing, wanted)
        action = "keep" if is_same else "change"
    end = wanted.body.get("endTime")
    if end and action != "keep" and datetime.datetime.fromisoformat(end) <= now:
        raise ConfigError(f"{wanted.name}: end: {end} is in the past")
    return Change(
        action=action,
        name=wanted.name,
        detail=wanted.body["cron"] + (", paused" if wanted.is_paused else ""),
        wanted=wanted,
        existing=existing,
    )


def _has_fields(existing: Json, wanted: Wanted) -> bool:
    expected: Json = {"startTime": existing.get("startTime"), **wanted.body}
    digests = {labels_of(body).get(DIGEST_LABEL) for body in (existing, expected)}
    return len(digests) == 1 and all(
        (existing.get(field) or None) == (expected.get(field) or None)
        for field in FIELDS
        if field != REQUEST
    )


def _has_state(existing: Json, wanted: Wanted) -> bool:
    state = existing["state"]
    if state == "ACTIVE":
        return not wanted.is_paused and bool(existing.get("catchUp")) == wanted.catch_up
    return state == "COMPLETED" or bool(wanted.is_paused)


def _can_be_updated(existing: Json, wanted: Wanted) -> bool:
    return existing["state"] != "COMPLETED" and not LASTING & existing.keys() - wanted.body.keys()


def _delete(schedule: Json, reason: str) -> Change:
    return Change(action="delete", name=schedule["displayName"], detail=reason, existing=schedule)
