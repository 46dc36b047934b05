"""First page: what serves, failed and waits, the next runs of schedules, and the disk."""

import shutil
import sqlite3
import time
from collections.abc import Iterator
from typing import Any

from vertex_local import Json
from vertex_local.api import fields
from vertex_local.api.fields import VERSIONS, run_facts
from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.console import endpoints, history, lists, schedules, words
from vertex_local.console.web import View
from vertex_local.endpoints import forwarding
from vertex_local.machine import lost_and_found
from vertex_local.machine.clock import timestamp
from vertex_local.models import record as registry

NUM_MINUTES = 60  # of the requests that are counted
MAX_RUNS, MAX_NOTES = 200, 20
WAITING = "waiting"
OTHER_KINDS = ("customJobs", "batchPredictionJobs", "hyperparameterTuningJobs")
LEAST_FREE_SHARE = 0.05
WAITING_VERSIONS = f"""
SELECT position FROM labels JOIN listed USING (position)
WHERE kind = '{VERSIONS}' AND labels.key GLOB '*{history.STATE}' AND labels.value = '{WAITING}'
ORDER BY position DESC
"""


def overview(service: Service, call: Call) -> Json:
    """Return what somebody on call asks first."""
    disk = shutil.disk_usage(service.root)
    since = timestamp(time.time() - words.DAY)
    plans = schedules.table(service, Call({}))["rows"]
    return {
        "notes": lost_and_found.notes(service.root)[-MAX_NOTES:],
        "lost": service.root / lost_and_found.FOLDER,
        "serving": list(_serving(service)),
        "counts_since": timestamp(service.running[forwarding.KEY].start),
        "failed": [*_failed_runs(service, since), *_failed_jobs(service, since)],
        "num_running": len(service.store.unfinished("pipelineJobs")),
        "waiting": list(_waiting(service)),
        "schedules": sorted(plans, key=lambda plan: plan["next"] or ["paused"]),
        "stays": service.stays.is_set(),
        "disk": disk,
        "is_low": disk.free < LEAST_FREE_SHARE * disk.total,
    }


def _serving(service: Service) -> Iterator[Json]:
    for record in service.store.list_kind("endpoints"):
        endpoint = endpoints.with_servers(service, record, num_minutes=NUM_MINUTES)
        for deployed in endpoint["deployed"]:
            name = f"{deployed['model']}/{VERSIONS}/{deployed['modelVersionId']}"
            version = service.store.find(name) or {"name": name}
            yield {
                "endpoint": endpoint,
                **deployed,
                "events": history.with_history(version)["events"],
                "run": lists.run_of(service, version),
            }


def _ended(service: Service, kind: str, since: str, more: str = "", **options: Any) -> list[Json]:
    """Return the newest resources of a kind that have ended since a time."""
    text = f'end_time>"{since}"{more}'
    page = lists.page(
        service, Call({}), kind, filter_text=text, order_by="end_time desc", **options
    )
    return list(page["rows"])


def _failed_runs(service: Service, since: str) -> list[Json]:
    rows = _ended(service, "pipelineJobs", since, fields=fields.RUNS, size=MAX_RUNS)
    return [
        row for row in rows if (run_facts(row).get("tone") or words.tone(row["state"])) == "bad"
    ]


def _failed_jobs(service: Service, since: str) -> list[Json]:
    """Return the failed jobs that are not of a run, which has failed itself."""
    more = ' AND state="JOB_STATE_FAILED"'
    return [
        job
        for kind in OTHER_KINDS
        for job in _ended(service, kind, since, more)
        if not lists.run_of(service, job)
    ]


def _waiting(service: Service) -> Iterator[Json]:
    """Yield the versions that wait for a decision, newest first, with their runs."""

    def read(connection: sqlite3.Connection) -> tuple[list[int], str]:
        return [row[0] for row in connection.execute(WAITING_VERSIONS)], ""

    for version in service.store.page(read)[0]:
        model = service.store.get(version["name"].partition(f"/{VERSIONS}/")[0])
        shown = registry.view(model, version)
        yield {**shown, "run": lists.run_of(service, shown)}


VIEWS = [View(pattern="/", content=overview, template="overview.html")]
