"""Scheduler: starts each due pipeline run once, while the service stays (`users.py`)."""

import logging
import re
import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial

from vertex_local import Json
from vertex_local.api.resource_names import ResourcePath
from vertex_local.api.service import Service
from vertex_local.errors import ApiError, already_exists
from vertex_local.machine.clock import moment_of, timestamp
from vertex_local.pipelines import resource as pipelines
from vertex_local.schedules import record as timing

logger = logging.getLogger(__name__)

COLLECTION = "schedules"
STAY_POLL_SECONDS = 0.5
RETRY_SECONDS = 0.5  # while a due run waits for others to end
CLOSE_TIMEOUT_SECONDS = 10.0


class Scheduler:
    """Thread that checks the schedules whenever one is due or has changed."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._changed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=COLLECTION, daemon=True)
        self._thread.start()

    @staticmethod
    def wake(service: Service) -> None:
        """Make the service's scheduler, if it has one, check the schedules now."""
        if isinstance(scheduler := service.running.get(COLLECTION), Scheduler):
            scheduler._changed.set()

    def close(self) -> None:
        """Wait for the end of the thread; `service.closing` is set."""
        self._changed.set()
        self._thread.join(CLOSE_TIMEOUT_SECONDS)

    def _run(self) -> None:
        service = self._service
        while not service.stays.wait(STAY_POLL_SECONDS):
            if service.closing.is_set():
                return
        apply_catch_up(service)
        while not service.closing.is_set():
            self._changed.clear()
            due = start_due(service)
            if due is not None and due <= service.clock.now():
                self._changed.wait(RETRY_SECONDS)
            else:
                service.clock.wait(self._changed, until=due)


def recover(service: Service) -> None:
    """Start the scheduler, which waits until the service stays."""
    service.running[COLLECTION] = Scheduler(service)


def close(service: Service) -> None:
    """Stop the scheduler."""
    scheduler = service.running.pop(COLLECTION, None)
    if isinstance(scheduler, Scheduler):
        scheduler.close()


def apply_catch_up(service: Service) -> None:
    """Queue or skip the missed runs of each schedule, by its `catchUp`."""
    _each(service, _apply_catch_up)


def start_due(service: Service) -> datetime | None:
    """Start all due runs; return the next time to check, in the past if a run has to wait."""
    return min((moment for moment in _each(service, _start_due) if moment), default=None)


def _each(
    service: Service, act: Callable[[Service, str], datetime | None]
) -> list[datetime | None]:
    """Return the result of `act` for each schedule; log exceptions."""
    results = []
    try:
        for record in service.store.list_kind(COLLECTION):
            try:
                results.append(act(service, record["name"]))
            except Exception:
                logger.exception("%s cannot be run", record["name"])
    except Exception:
        logger.exception("The schedules cannot be read")
    return results


def _apply_catch_up(service: Service, name: str) -> None:
    now = service.clock.now()
    record = service.store.get(name)
    if record["state"] == "ACTIVE" and moment_of(record["nextRunTime"]) < now:
        action = "start late" if record.get("catchUp") else "are skipped"
        logger.info("%s: the runs missed since %s %s", name, record["nextRunTime"], action)
    service.store.update(name, partial(timing.apply_catch_up, now=now))


def _start_due(service: Service, name: str) -> datetime | None:
    _follow_clock(service, name)
    while not service.closing.is_set() and _decide_next(service, name):
        pass
    record = service.store.find(name)
    is_active = record is not None and record["state"] == "ACTIVE"
    return moment_of(record["nextRunTime"]) if record and is_active else None


def _follow_clock(service: Service, name: str) -> None:
    """Restart a schedule from the present if the clock was ahead when its next run was set."""
    now = service.clock.now()
    record = service.store.find(name)
    if record is None or record["state"] == "PAUSED" or not timing.is_set_back(record, now):
        return
    if _change(service, record, partial(timing.restart_set_back, now=now)):
        logger.warning(
            "%s: the clock was set back from %s to %s; the schedule continues from there, and its "
            "next run is no longer at %s",
            name,
            record["decidedAt"],
            timestamp(now),
            record.get("nextRunTime", "any time"),
        )


def _decide_next(service: Service, name: str) -> bool:
    """Start or skip the next run of a schedule; return False if it is not due or has to wait."""
    now = service.clock.now()
    record = service.store.find(name)
    if record is None or record["state"] != "ACTIVE" or moment_of(record["nextRunTime"]) > now:
        return False
    decision = timing.decide(record, now=now, num_active=num_active(service, record))
    if decision == timing.START:
        _start(service, record)
        return True
    if decision == timing.SKIP:
        logger.info("%s: the run of %s is skipped", name, record["nextRunTime"])
        _change(service, record, partial(timing.advance, now=now))
        return True
    if record.get("allowQueueing"):
        _change(service, record, lambda record: timing.owe(record, now))
    return False


def _start(service: Service, record: Json) -> None:
    """Start the run that is due.

    One transaction stores the run and the new state of the schedule, and the run's id is derived
    from the schedule and the time. So after a crash no run is missing, and none starts twice.
    """
    due = record["nextRunTime"]
    body = record["createPipelineJobRequest"].get("pipelineJob", {})
    try:
        pipelines.require_kfp()
        service.store.reserve.require_space()
        plan = pipelines.plan(service, body)
        job = _store_run(service, record, body, run_id=run_id(record, plan["pipelineSpec"]))
    except (ApiError, OSError) as error:
        reason = str(error)
        logger.error("%s: the run of %s cannot be started: %s", record["name"], due, reason)
        _change(service, record, partial(_count, service, response=reason, is_started=False))
        return
    if job:
        logger.info("%s: starting %s", record["name"], job["name"])
        pipelines.launch(service, {**job, **plan, "scheduledRunTime": due})


def run_id(record: Json, spec: Json) -> str:
    """Return the id of the run that is due: pipeline, schedule and time."""
    due = moment_of(record["nextRunTime"])
    schedule_id = ResourcePath.from_name(record["name"]).id
    pipeline = re.sub(r"[^a-z0-9-]", "-", spec["pipelineInfo"]["name"].lower())  # names a folder
    return f"{pipeline:.80}-{schedule_id}-{due:%Y%m%d%H%M%S}"


def _store_run(service: Service, record: Json, body: Json, *, run_id: str) -> Json | None:
    """Store the run; return its record, or None if the schedule has changed since it was read."""
    parent = ResourcePath.from_name(record["name"]).parent
    name = f"{parent}/{pipelines.KIND.collection}/{run_id}"
    body = {"displayName": record["displayName"], **body, "scheduleName": record["name"]}
    with service.store.atomic():
        if not _change(service, record, partial(_count, service, response=name, is_started=True)):
            return None
        if service.store.find(name):
            raise already_exists(name)
        return pipelines.insert(service, name, body)


def _count(service: Service, record: Json, *, response: str, is_started: bool) -> None:
    record["lastScheduledRunResponse"] = {
        "scheduledRunTime": record["nextRunTime"],
        "runResponse": response,
    }
    record["startedRunCount"] = str(int(record["startedRunCount"]) + is_started)
    timing.advance(record, service.clock.now())


def _change(service: Service, read: Json, change: timing.Change) -> bool:
    """Change a schedule's record, unless a client has changed it since it was read."""
    with service.store.atomic():
        if service.store.find(read["name"]) != read:
            return False
        service.store.update(read["name"], change)
    return True


def num_active(service: Service, record: Json) -> int:
    """Return the number of a schedule's runs that have not ended."""
    runs = service.store.unfinished(pipelines.KIND.collection)
    return sum(run.get("scheduleName") == record["name"] for run in runs)
