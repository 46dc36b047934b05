"""Page of schedules: their next runs and last outcomes; pause, resume, run now."""

from collections.abc import Callable
from functools import partial
from itertools import islice

from vertex_local import Json
from vertex_local.api import fields
from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.console import lists, words
from vertex_local.console.web import RESOURCE, View
from vertex_local.machine.clock import moment_of, timestamp
from vertex_local.pipelines import resource as pipelines
from vertex_local.rules.cron import Cron
from vertex_local.schedules import resource as schedules
from vertex_local.schedules.scheduler import COLLECTION, run_id

NUM_NEXT, NUM_LAST = 3, 5
ADDRESS = "/schedules"


def table(service: Service, call: Call) -> Json:
    """Return a page of the schedules with their next runs and last outcomes."""
    page = lists.page(service, call, COLLECTION)
    rows = [
        {**record, "next": _next(record), "last": _runs(service, record)} for record in page["rows"]
    ]
    return {**page, "rows": rows, "stays": service.stays.is_set()}


def _change(
    service: Service, call: Call, *, state: str, method: Callable[[Service, Call], Json]
) -> Json:
    """Pause or resume a schedule, unless it has that state since the page was loaded."""
    is_done = service.store.get(call.name(COLLECTION))["state"] == state
    return {} if is_done else method(service, call)


def run_now(service: Service, call: Call) -> str:
    """Start the run of a schedule now, as its clock does; its times stay as they are."""
    record = service.store.get(call.name(COLLECTION))
    pipelines.require_kfp()
    job = record[schedules.REQUEST].get("pipelineJob", {})
    body = {"displayName": record["displayName"], **job, "scheduleName": record["name"]}
    plan = pipelines.plan(service, body)
    due = timestamp(service.clock.now(), timespec="seconds")
    run = run_id({**record, "nextRunTime": due}, plan["pipelineSpec"])
    name = f"{call.parent}/{pipelines.KIND.collection}/{run}"
    if not service.store.find(name):  # else a second click in one second
        made = pipelines.insert(service, name, body)
        pipelines.launch(service, {**made, **plan, "scheduledRunTime": due})
    return words.href(name)


def _next(record: Json) -> list[str]:
    if record["state"] != "ACTIVE":
        return []
    first, end = moment_of(record["nextRunTime"]), record.get("endTime")
    times = [first, *islice(Cron.parse(record["cron"]).after(first), NUM_NEXT - 1)]
    return [timestamp(time) for time in times if not end or time <= moment_of(end)]


def _runs(service: Service, record: Json) -> Json:
    """Return the runs of a schedule: of its clock, and those that have all labels of its runs."""
    labels = record[schedules.REQUEST].get("pipelineJob", {}).get("labels", {})
    same = " AND ".join(f'labels."{key}"="{value}"' for key, value in labels.items())
    query = f'schedule_name="{record["name"]}"' + (f" OR ({same})" if same else "")
    kind = pipelines.KIND.collection
    return lists.page(service, Call({}), kind, fields=fields.RUNS, filter_text=query, size=NUM_LAST)


PAUSE = partial(_change, state="PAUSED", method=schedules.pause)
RESUME = partial(_change, state="ACTIVE", method=schedules.resume)
SCHEDULE = f"{ADDRESS}/{RESOURCE}"
VIEWS = [
    View(pattern=ADDRESS, content=table, template="schedules.html"),
    View(pattern=f"{SCHEDULE}:pause", content=PAUSE, method="POST", then=ADDRESS),
    View(pattern=f"{SCHEDULE}:resume", content=RESUME, method="POST", then=ADDRESS),
    View(pattern=f"{SCHEDULE}:run", content=run_now, method="POST", then=ADDRESS),
]
