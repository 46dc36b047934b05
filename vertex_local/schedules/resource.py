"""schedules: their runs are started by `scheduler.py`."""

from datetime import timedelta
from typing import Any

from vertex_local import Json
from vertex_local.api import operations, protos
from vertex_local.api.pages import list_page
from vertex_local.api.routes import Call, routes_of
from vertex_local.api.service import Service
from vertex_local.errors import ApiError, failed_precondition, invalid_argument
from vertex_local.machine.clock import moment_of, timestamp
from vertex_local.pipelines import resource as pipelines
from vertex_local.rules.cron import Cron
from vertex_local.schedules import record as timing
from vertex_local.schedules.scheduler import COLLECTION, Scheduler, close, recover

__all__ = ["ROUTES", "close", "recover"]

REQUEST = "createPipelineJobRequest"
MAX_AHEAD = timedelta(days=50 * 365)  # as far as `cron.py` looks for a time
CHANGEABLE = (
    "displayName",
    "cron",
    "startTime",
    "endTime",
    "maxRunCount",
    "maxConcurrentRunCount",
    "maxConcurrentActiveRunCount",
    "allowQueueing",
    REQUEST,
)


def create(service: Service, call: Call) -> Json:
    """POST …/schedules: create a schedule."""
    given = protos.parse("Schedule", call.body)
    record = {field: given[field] for field in CHANGEABLE if field in given}
    now = service.clock.now()
    _check(service, record, parent=call.parent)
    if "endTime" in record and moment_of(record["endTime"]) <= now:
        raise invalid_argument(f"endTime {record['endTime']} has passed.")
    record = {
        "name": f"{call.parent}/{COLLECTION}/{service.store.next_id()}",
        "startTime": timestamp(now),
        **record,
        "state": "ACTIVE",
        "startedRunCount": "0",
        "createTime": timestamp(now),
        "updateTime": timestamp(now),
    }
    timing.restart(record, now)
    service.store.insert(record["name"], record)
    Scheduler.wake(service)
    return view(record)


def get(service: Service, call: Call) -> Json:
    """GET …/schedules/ID: return a schedule."""
    return view(service.store.get(call.name(COLLECTION)))


def list_schedules(service: Service, call: Call) -> Json:
    """GET …/schedules: list schedules."""
    return list_page(service, call, COLLECTION, view=view)


def update(service: Service, call: Call) -> Json:
    """PATCH …/schedules/ID?updateMask=…; runs that are due but have not started are skipped."""
    mask = call.update_mask(CHANGEABLE)
    given = protos.parse("Schedule", call.body, fields=mask)

    def change(record: Json) -> None:
        if record["state"] == "COMPLETED":
            raise failed_precondition(
                f"{record['name']} is COMPLETED and cannot be changed; delete it, create a new one."
            )
        for field in mask:
            if field in given:
                record[field] = given[field]
            elif field == "allowQueueing":  # canonical JSON omits false
                record.pop(field, None)
            elif field in record:
                raise invalid_argument(f"{field} cannot be unset; create a new schedule.")
        _check(service, record, parent=call.parent)
        timing.restart(record, service.clock.now())

    return _update_record(service, call, change)


def pause(service: Service, call: Call) -> Json:
    """POST …/schedules/ID:pause; does not affect runs that have started."""

    def change(record: Json) -> None:
        _require_state(record, "ACTIVE")
        record.update(state="PAUSED", lastPauseTime=timestamp(service.clock.now()))

    _update_record(service, call, change)
    return {}


def resume(service: Service, call: Call) -> Json:
    """POST …/schedules/ID:resume; with `catchUp`, missed runs are started."""
    body = {**call.body, "name": call.name(COLLECTION)}
    catch_up = bool(protos.parse("ResumeScheduleRequest", body).get("catchUp"))

    def change(record: Json) -> None:
        _require_state(record, "PAUSED")
        now = service.clock.now()
        record.update(state="ACTIVE", lastResumeTime=timestamp(now), catchUp=catch_up)
        if catch_up:
            timing.owe(record, now)
        else:
            timing.restart(record, now)

    _update_record(service, call, change)
    return {}


def delete(service: Service, call: Call) -> Json:
    """DELETE …/schedules/ID; does not affect runs that have started."""
    service.store.delete(call.name(COLLECTION))
    return operations.deleted(service, call.name(COLLECTION))


def view(record: Json) -> Json:
    """Return a schedule as clients see it."""
    hidden = {"owedUntil", "decidedAt"}
    if record["state"] != "ACTIVE":
        hidden.add("nextRunTime")
    return {field: value for field, value in record.items() if field not in hidden}


def _update_record(service: Service, call: Call, change: Any) -> Json:
    def stamped(record: Json) -> None:
        change(record)
        record["updateTime"] = timestamp(service.clock.now())

    record = service.store.update(call.name(COLLECTION), stamped)
    Scheduler.wake(service)
    return view(record)


def _require_state(record: Json, state: str) -> None:
    if record["state"] != state:
        raise failed_precondition(f"{record['name']} is {record['state']}, not {state}.")


def _check(service: Service, record: Json, *, parent: str) -> None:
    try:
        Cron.parse(record["cron"])
    except ValueError as error:
        raise invalid_argument(f"cron: {error}.") from None
    start, end = record.get("startTime"), record.get("endTime")
    if start and moment_of(start) > service.clock.now() + MAX_AHEAD:
        raise invalid_argument(f"startTime {start} is more than fifty years ahead.")
    if start and end and moment_of(end) <= moment_of(start):
        raise invalid_argument(f"endTime {end} is not after startTime {start}.")
    _check_request(service, record[REQUEST], parent=parent)


def _check_request(service: Service, request: Json, *, parent: str) -> None:
    if request.get("parent") != parent:
        raise invalid_argument(
            f'{REQUEST}.parent is "{request.get("parent", "")}"; it must be "{parent}".'
        )
    if "pipelineJobId" in request:
        raise invalid_argument(f"{REQUEST}.pipelineJobId must be empty: each run needs its own.")
    try:
        pipelines.plan(service, request.get("pipelineJob", {}))
    except ApiError as error:
        raise invalid_argument(f"{REQUEST}.pipelineJob: {error.message}") from None


ROUTES = routes_of(
    COLLECTION,
    {
        "POST": create,
        "GET": list_schedules,
        "GET /<id>": get,
        "PATCH /<id>": update,
        "DELETE /<id>": delete,
        "POST /<id>:pause": pause,
        "POST /<id>:resume": resume,
    },
)
