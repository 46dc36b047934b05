"""Page of schedules: their next runs and last outcomes; pause, resume, run now."""

from datetime import datetime

from vertex_local import Json
from vertex_local.api.query import fields
from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.console import lists, runs, words
from vertex_local.console.web import RESOURCE, View
from vertex_local.machine.clock import moment_of, timestamp
from vertex_local.pipelines import resource as pipelines
from vertex_local.schedules import resource as schedules
from vertex_local.schedules.cron import Cron
from vertex_local.schedules.scheduler import COLLECTION, run_id

NUM_NEXT, NUM_LAST = 3, 5


def table(service: Service, call: Call) -> Json:
    """Return the schedules with their next runs and last outcomes."""
    rows = lists.page(service, call, COLLECTION, lambda record: _shown(service, record))
    return {**rows, "stays": service.stays.is_set()}


def pause(service: Service, call: Call) -> Json:
    """Pause a schedule."""
    schedules.pause(service, call)
    return {"location": "/schedules"}


def resume(service: Service, call: Call) -> Json:
    """Resume a schedule; missed runs are skipped."""
    schedules.resume(service, Call(call.args))
    return {"location": "/schedules"}


def run_now(service: Service, call: Call) -> Json:
    """Start the run of a schedule now, as its clock does; its times stay as they are."""
    record = service.store.get(call.name(COLLECTION))
    pipelines.require_kfp()
    body = {
        "displayName": record["displayName"],
        **record[schedules.REQUEST].get("pipelineJob", {}),
        "scheduleName": record["name"],
    }
    plan = pipelines.plan(service, body)
    due = timestamp(service.clock.now(), timespec="seconds")
    name = run_id({**record, "nextRunTime": due}, plan["pipelineSpec"])
    made = pipelines.insert(service, f"{call.parent}/{pipelines.KIND.collection}/{name}", body)
    pipelines.launch(service, {**made, **plan, "scheduledRunTime": due})
    return {"location": words.href(made["name"])}


def _shown(service: Service, record: Json) -> Json:
    made = _runs(service, record)
    return {
        "name": record["name"],
        "title": record["displayName"],
        "state": record["state"],
        "cron": record["cron"],
        "next": _next(record),
        "by_clock": int(record["startedRunCount"]),
        "by_hand": made["count"] - int(record["startedRunCount"]),
        "most": record.get("maxRunCount", ""),
        "last": made["rows"],
        "failure": _failure(record),
    }


def _next(record: Json) -> list[str]:
    """Return the times of the next runs; none while it is paused."""
    if record["state"] != "ACTIVE":
        return []
    cron, end = Cron.parse(record["cron"]), record.get("endTime")
    times: list[datetime] = [moment_of(record["nextRunTime"])]
    while len(times) < NUM_NEXT and (following := cron.next_after(times[-1])):
        times.append(following)
    return [timestamp(one) for one in times if not end or one <= moment_of(end)]


def _runs(service: Service, record: Json) -> Json:
    """Return the runs of a schedule: of its clock, and those that have all labels of its runs."""
    labels = record[schedules.REQUEST].get("pipelineJob", {}).get("labels", {})
    same = " AND ".join(f'labels."{key}"="{value}"' for key, value in labels.items())
    query = f'schedule_name="{record["name"]}"' + (f" OR ({same})" if same else "")
    return lists.page(
        service,
        Call({}),
        pipelines.KIND.collection,
        runs.shown,
        fields=fields.RUNS,
        filter_text=query,
        size=NUM_LAST,
    )


def _failure(record: Json) -> str:
    """Return why the last run could not start, "" if it did."""
    response: str = record.get("lastScheduledRunResponse", {}).get("runResponse", "")
    return "" if response.startswith("projects/") else response


VIEWS = [
    View(pattern="/schedules", content=table, template="schedules.html"),
    View(pattern=f"/schedules/{RESOURCE}:pause", content=pause, method="POST"),
    View(pattern=f"/schedules/{RESOURCE}:resume", content=resume, method="POST"),
    View(pattern=f"/schedules/{RESOURCE}:run", content=run_now, method="POST"),
]
