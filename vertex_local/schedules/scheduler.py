"""Starts the pipeline runs that are due, once each, while the service is there to stay."""

import logging
import re
import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial

from vertex_local.api.resource_names import ResourceName
from vertex_local.api.service import Service
from vertex_local.errors import ApiError, already_exists
from vertex_local.json_types import Json
from vertex_local.machine.clock import moment_of
from vertex_local.pipelines import resource as pipelines
from vertex_local.schedules import timing

logger = logging.getLogger(__name__)

COLLECTION = "schedules"
STAY_POLL_SECONDS = 0.5
RETRY_SECONDS = 0.5  # how soon it is looked again whether a run has ended that others wait for
CLOSE_TIMEOUT_SECONDS = 10.0


class Scheduler:
    """A thread that looks at the schedules whenever one is due or was changed."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._changed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=COLLECTION, daemon=True)
        self._thread.start()

    @staticmethod
    def wake(service: Service) -> None:
        """Has the service's scheduler, if it has one, look at the schedules now."""
        if isinstance(scheduler := service.running.get(COLLECTION), Scheduler):
            scheduler._changed.set()

    def close(self) -> None:
        """Waits until nothing more is started; the service is closing."""
        self._changed.set()
        self._thread.join(CLOSE_TIMEOUT_SECONDS)

    def _run(self) -> None:
        service = self._service
        while not service.stays.wait(STAY_POLL_SECONDS):
            if service.closing.is_set():
                return
        settle(service)
        while not service.closing.is_set():
            self._changed.clear()
            due = start_due(service)
            if due is not None and due <= service.clock.now():
                self._changed.wait(RETRY_SECONDS)
            else:
                service.clock.wait(self._changed, until=due)


def recover(service: Service) -> None:
    """Begins to run schedules once the service is known to stay."""
    service.running[COLLECTION] = Scheduler(service)


def close(service: Service) -> None:
    """Ends the scheduler's thread."""
    scheduler = service.running.pop(COLLECTION, None)
    if isinstance(scheduler, Scheduler):
        scheduler.close()


def settle(service: Service) -> None:
    """Decides by each schedule's catch-up about the runs that were missed until now."""
    _each(service, _settle)


def start_due(service: Service) -> datetime | None:
    """Starts every run that is due; answers when to look again, past if a run has to wait."""
    return min((moment for moment in _each(service, _start_due) if moment), default=None)


def _each(
    service: Service, act: Callable[[Service, str], datetime | None]
) -> list[datetime | None]:
    """What `act` answers for each schedule; one that fails does not stop the others."""
    answers = []
    try:
        for record in service.store.list_kind(COLLECTION):
            try:
                answers.append(act(service, record["name"]))
            except Exception:
                logger.exception("%s fails", record["name"])
    except Exception:
        logger.exception("The schedules cannot be read")
    return answers


def _settle(service: Service, name: str) -> None:
    now = service.clock.now()
    record = service.store.get(name)
    if record["state"] == "ACTIVE" and moment_of(record["nextRunTime"]) < now:
        word = "are caught up" if record.get("catchUp") else "are left out"
        logger.info("%s: runs missed since %s %s", name, record["nextRunTime"], word)
    service.store.update(name, partial(timing.settle, now=now))


def _start_due(service: Service, name: str) -> datetime | None:
    while not service.closing.is_set() and _decide_next(service, name):
        pass
    record = service.store.find(name)
    is_active = record is not None and record["state"] == "ACTIVE"
    return moment_of(record["nextRunTime"]) if record and is_active else None


def _decide_next(service: Service, name: str) -> bool:
    """Decides about one schedule's next time; False when it is not due, or has to wait."""
    now = service.clock.now()
    record = service.store.find(name)
    if record is None or record["state"] != "ACTIVE" or moment_of(record["nextRunTime"]) > now:
        return False
    decision = timing.decide(record, now=now, num_active=_num_active(service, record))
    if decision == timing.START:
        _start(service, record)
        return True
    if decision == timing.SKIP:
        logger.info("%s: the run of %s is left out", name, record["nextRunTime"])
        _change(service, record, timing.advance)
        return True
    if record.get("allowQueueing"):
        _change(service, record, lambda record: timing.owe(record, now))
    return False


def _start(service: Service, record: Json) -> None:
    """Starts the run that is due.

    One transaction stores the run and that it was started; the run's id follows from the schedule
    and the time. So a crash loses both or none, and no time has two runs.
    """
    due = record["nextRunTime"]
    body = record["createPipelineJobRequest"].get("pipelineJob", {})
    try:
        service.store.space.demand()
        plan = pipelines.plan(service, body)
        job = _store_run(service, record, body, run_id=run_id(record, plan["pipelineSpec"]))
    except (ApiError, OSError) as error:
        reason = str(error)
        logger.error("%s: the run of %s cannot be started: %s", record["name"], due, reason)
        _change(service, record, lambda record: _count(record, reason, is_started=False))
        return
    if job:
        logger.info("%s: starting %s", record["name"], job["name"])
        pipelines.launch(service, {**job, **plan, "scheduledRunTime": due})


def run_id(record: Json, spec: Json) -> str:
    """The id of the run that is due: pipeline, schedule and time."""
    due = moment_of(record["nextRunTime"])
    schedule_id = ResourceName.from_name(record["name"]).id
    pipeline = re.sub(r"[^a-z0-9-]", "-", spec["pipelineInfo"]["name"].lower())  # names a folder
    return f"{pipeline:.80}-{schedule_id}-{due:%Y%m%d%H%M%S}"


def _store_run(service: Service, record: Json, body: Json, *, run_id: str) -> Json | None:
    """The run's record; None if the schedule has changed since it was read."""
    name = f"{_runs_of(record)}/{run_id}"
    body = {"displayName": record["displayName"], **body, "scheduleName": record["name"]}
    with service.store.atomic():
        if not _change(service, record, lambda record: _count(record, name, is_started=True)):
            return None
        if service.store.find(name):
            raise already_exists(name)
        return pipelines.insert(service, name, body)


def _count(record: Json, response: str, *, is_started: bool) -> None:
    record["lastScheduledRunResponse"] = {
        "scheduledRunTime": record["nextRunTime"],
        "runResponse": response,
    }
    record["startedRunCount"] = str(int(record["startedRunCount"]) + is_started)
    timing.advance(record)


def _change(service: Service, read: Json, change: timing.Change) -> bool:
    """Changes a schedule's record unless a client has changed it since it was read."""
    with service.store.atomic():
        if service.store.find(read["name"]) != read:
            return False
        service.store.update(read["name"], change)
    return True


def _num_active(service: Service, record: Json) -> int:
    runs = service.store.list(_runs_of(record))
    ours = [run for run in runs if run.get("scheduleName") == record["name"]]
    return sum(pipelines.KIND.is_unfinished(run) for run in ours)


def _runs_of(record: Json) -> str:
    """Return the collection of the pipeline runs of a schedule's project and location."""
    return f"{ResourceName.from_name(record['name']).parent}/{pipelines.KIND.collection}"
