"""Makes the schedules that are there equal to what the schedule files say."""

import dataclasses
import datetime
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from components.labels import RUN_LABEL, SCHEDULE_LABEL
from components.model_version.registry import LRO_TIMEOUT_SECONDS
from components.plan_training.suggest import did_you_mean
from components.run_summary.settings import WEBHOOK, without_path
from components.vertex.api import VertexApi
from pipelines.package.registry import RegistryError
from pipelines.package.spec import check_images
from pipelines.resources import ResourceError
from pipelines.runs.submit import config_of, package_of, plan_run
from pipelines.schedules.file import ScheduleFile
from pipelines.target.places import Target
from pipelines.vertex_checks import ConfigError
from trainer import paths
from trainer.json_types import Json

# A Schedule has no labels; SCHEDULE_LABEL of its runs says that it is ours, this what it was made
# from.
DIGEST_LABEL = "trainyard_schedule_digest"
REQUEST = "createPipelineJobRequest"
KEEP = "keep_endpoint="  # a schedule's runs do so unless the file says otherwise
COUNTS = ("maxRunCount", "maxConcurrentRunCount", "maxConcurrentActiveRunCount")
TIMES = ("startTime", "endTime")
FIELDS = ("cron", *TIMES, *COUNTS, "allowQueueing", REQUEST)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A schedule that is to be there: the body of the request that creates it, and its state."""

    body: Json
    is_paused: bool
    catch_up: bool

    @property
    def name(self) -> str:
        """Its display name, which is the file's."""
        return str(self.body["displayName"])


@dataclass(frozen=True, kw_only=True)
class Change:
    """What has to be done about one schedule.

    `action` is create, update, replace, delete, pause, resume, catch-up or keep; `reasons` tell a
    person what differs; `there` is the schedule as it is, `fields` are those to update.
    """

    action: str
    name: str
    reasons: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    wanted: Wanted | None = None
    there: Json | None = None


def plan_schedule(file: ScheduleFile, *, target: Target, image: str | None = None) -> Wanted:
    """What a schedule file asks for, with everything checked that can be checked here.

    Raises:
        ConfigError: names the file and the field.
    """
    try:
        package = package_of(file.source, image=image)
        if paths.is_in_bucket(target.pipeline_root):
            check_images(package)
    except (ConfigError, RegistryError) as error:
        raise file.wrong(file.field, error) from error
    settings = list(file.settings)
    try:
        config = config_of(package, settings=settings, cluster=None)
        if config and not any(setting.startswith(KEEP) for setting in settings):
            config = dataclasses.replace(config, keep_endpoint=True)
        planned = plan_run(
            package,
            run=file.name,
            target=target,
            config=config,
            settings=settings,
            use_cache=file.cache,
        )
    except ValueError as error:
        raise file.wrong("parameters", error) from error
    body = schedule_request(file, planned.request, parent=target.parent)
    return Wanted(body=body, is_paused=file.paused, catch_up=file.catch_up)


def schedule_request(file: ScheduleFile, run: Json, *, parent: str) -> Json:
    """The body of `POST …/schedules`: a Schedule as Vertex AI's REST API takes it.

    https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.schedules
    """
    own = {key: value for key, value in run["labels"].items() if key != RUN_LABEL}
    job = {**run, "displayName": file.name, "labels": {**own, SCHEDULE_LABEL: file.name}}
    digest = hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()[:16]
    job["labels"][DIGEST_LABEL] = digest
    return {
        "displayName": file.name,
        "cron": file.cron,
        **({"startTime": _stamp(file.start)} if file.start else {}),
        **({"endTime": _stamp(file.end)} if file.end else {}),
        **({"maxRunCount": str(file.max_runs)} if file.max_runs else {}),
        # The first limits how many are being started, the second how many run.
        "maxConcurrentRunCount": str(file.concurrency),
        "maxConcurrentActiveRunCount": str(file.concurrency),
        **({"allowQueueing": True} if file.queue else {}),
        REQUEST: {"parent": parent, "pipelineJob": job},
    }


def differences(
    wanted: Iterable[Wanted], there: Iterable[Json], *, now: datetime.datetime
) -> list[Change]:
    """What has to be done, by name, so that exactly the wanted schedules are there.

    Raises:
        ConfigError: a schedule would have to be created that has ended.
    """
    by_name: dict[str, Json] = {}
    changes = []
    for schedule in there:
        if schedule["displayName"] in by_name:
            changes.append(_delete(schedule, "is there twice"))
        by_name.setdefault(schedule["displayName"], schedule)
    for one in wanted:
        changes.append(_difference(one, by_name.pop(one.name, None)))
    changes += [_delete(schedule, "no file says it") for schedule in by_name.values()]
    for change in changes:
        if change.action in ("create", "replace") and change.wanted:
            end = change.wanted.body.get("endTime")
            if end and datetime.datetime.fromisoformat(end) <= now:
                raise ConfigError(f"{change.name}: end: {end} has passed")
    return sorted(changes, key=lambda change: change.name)


def ours(api: VertexApi) -> list[Json]:
    """The schedules that were made from files."""
    return [one for one in api.list_resources("schedules") if SCHEDULE_LABEL in labels_of(one)]


def find(api: VertexApi, name: str) -> Json:
    """The schedule of a name.

    Raises:
        ResourceError: there is none; says which there are.
    """
    schedules = ours(api)
    for schedule in schedules:
        if schedule["displayName"] == name:
            return schedule
    names = [one["displayName"] for one in schedules]
    hint, known = did_you_mean(name, names), ", ".join(names) or "none"
    raise ResourceError(f"no schedule {name!r};{hint} there: {known}")


def apply_change(api: VertexApi, change: Change) -> None:
    """Does what has to be done about one schedule."""
    if change.there and change.action in ("delete", "replace"):
        delete(api, change.there)
    if change.action == "update" and change.wanted and change.there:
        body = {field: change.wanted.body.get(field, False) for field in change.fields}
        mask = ",".join(change.fields)
        api.patch(f"{change.there['name']}?updateMask={mask}", body)
    if change.wanted is None or change.action == "keep":
        return
    there = change.there or {}
    if change.action in ("create", "replace"):
        there = _create(api, change.wanted)
    _set_state(api, there, change.wanted)


def pause(api: VertexApi, schedule: Json) -> None:
    """Starts no more runs of it until it is resumed."""
    api.post(f"{schedule['name']}:pause", {}, find=lambda: _if_is(api, schedule, "PAUSED"))


def resume(api: VertexApi, schedule: Json, *, catch_up: bool) -> None:
    """Starts runs again; with `catch_up`, those first that were missed."""
    body = {"catchUp": True} if catch_up else {}
    api.post(f"{schedule['name']}:resume", body, find=lambda: _if_is(api, schedule, "ACTIVE"))


def delete(api: VertexApi, schedule: Json) -> None:
    """Deletes it; runs that have begun go on."""
    api.wait(api.delete(schedule["name"]), timeout_seconds=LRO_TIMEOUT_SECONDS)


def run_request_of(schedule: Json, *, run: str) -> Json:
    """The request for a run that does now what the schedule's runs do."""
    job = schedule[REQUEST]["pipelineJob"]
    return {**job, "displayName": run, "labels": {**job["labels"], RUN_LABEL: run}}


def labels_of(schedule: Json) -> dict[str, str]:
    """The labels of the schedule's runs."""
    labels: dict[str, str] = schedule.get(REQUEST, {}).get("pipelineJob", {}).get("labels", {})
    return labels


def _create(api: VertexApi, wanted: Wanted) -> Json:
    """Create a schedule; Vertex AI chooses the id, but names are unique among ours."""

    def find() -> Json | None:
        return next((one for one in ours(api) if one["displayName"] == wanted.name), None)

    return api.post(f"{api.parent}/schedules", wanted.body, find=find)


def _if_is(api: VertexApi, schedule: Json, state: str) -> Json | None:
    now = api.get(schedule["name"])
    return now if now["state"] == state else None


def _set_state(api: VertexApi, there: Json, wanted: Wanted) -> None:
    """Pauses or resumes; only by resuming can catch-up be changed."""
    state = there["state"]
    if state == "COMPLETED":
        return
    is_other = bool(there.get("catchUp")) != wanted.catch_up
    if state == "ACTIVE" and (wanted.is_paused or is_other):
        pause(api, there)
    if not wanted.is_paused and (state == "PAUSED" or is_other):
        resume(api, there, catch_up=wanted.catch_up)


def _difference(wanted: Wanted, there: Json | None) -> Change:
    if there is None:
        return Change(action="create", name=wanted.name, wanted=wanted)
    fields = tuple(field for field in FIELDS if not _is_same(field, wanted.body, there))
    reasons = [reason for field in fields for reason in _reasons(field, wanted.body, there)]
    is_over = there["state"] == "COMPLETED"
    # What is set cannot be unset, and what is over cannot be changed.
    unset = [field for field in fields if field not in wanted.body and field != "allowQueueing"]
    action = "update" if fields else "keep"
    if unset or (fields and is_over):
        action = "replace"
    elif not is_over and wanted.is_paused != (there["state"] == "PAUSED"):
        reasons.append("paused: " + ("false → true" if wanted.is_paused else "true → false"))
        action = action if fields else ("pause" if wanted.is_paused else "resume")
    elif there["state"] == "ACTIVE" and bool(there.get("catchUp")) != wanted.catch_up:
        reasons.append(f"catch_up: {_word(not wanted.catch_up)} → {_word(wanted.catch_up)}")
        action = action if fields else "catch-up"
    return Change(
        action=action,
        name=wanted.name,
        reasons=tuple(reasons),
        fields=fields,
        wanted=wanted,
        there=there,
    )


def _is_same(field: str, wanted: Json, there: Json) -> bool:
    if field == REQUEST:
        ours = wanted[REQUEST]["pipelineJob"]["labels"][DIGEST_LABEL]
        return bool(labels_of(there).get(DIGEST_LABEL) == ours)
    if field == "startTime" and field not in wanted:
        return True  # Vertex AI gives it the time of creation
    return bool(_plain(field, wanted.get(field)) == _plain(field, there.get(field)))


def _plain(field: str, value: Any) -> Any:
    if field == "allowQueueing":
        return bool(value)
    if value is None:
        return None
    if field in TIMES:
        return datetime.datetime.fromisoformat(value)
    return int(value) if field in COUNTS else value


def _reasons(field: str, wanted: Json, there: Json) -> list[str]:
    if field != REQUEST:
        return [f"{field}: {_word(there.get(field))} → {_word(wanted.get(field))}"]
    new, old = (_parameters(one) for one in (wanted, there))
    changed = [name for name in sorted({*new, *old}) if new.get(name) != old.get(name)]
    told = [f"{name}: {_word(old.get(name))} → {_word(new.get(name))}" for name in changed]
    return told or ["the pipeline itself"]


def _parameters(schedule: Json) -> Json:
    config = schedule.get(REQUEST, {}).get("pipelineJob", {}).get("runtimeConfig", {})
    values: Json = config.get("parameterValues", {})
    if url := values.get(WEBHOOK):  # its path may be a secret; two are told from each other
        digest = hashlib.sha256(str(url).encode()).hexdigest()[:6]
        return {**values, WEBHOOK: f"{without_path(url)} ({digest})"}
    return values


def _word(value: Any) -> str:
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)


def _delete(schedule: Json, reason: str) -> Change:
    return Change(action="delete", name=schedule["displayName"], reasons=(reason,), there=schedule)


def _stamp(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
