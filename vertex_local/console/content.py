"""Content of the console: pipeline runs, schedules, jobs, models, endpoints; newest first."""

from collections.abc import Callable
from contextlib import suppress

from vertex_local import Json
from vertex_local.api.resource_names import ResourceName
from vertex_local.api.service import Service
from vertex_local.console.times import seconds_between
from vertex_local.endpoints import deployments, request_log
from vertex_local.jobs import resource as jobs
from vertex_local.models import record as registry
from vertex_local.pipelines import resource as pipelines
from vertex_local.processes import group as processes
from vertex_local.schedules import resource as schedules

MAX_SHOWN = 20


def sections(service: Service) -> list[Json]:
    """Return the sections of the page; each card has the resource and what the page adds."""
    return [
        _section(service, title, kind, card)
        for title, kind, card in (
            ("Pipeline runs", "pipelineJobs", _pipeline),
            ("Schedules", "schedules", _schedule),
            ("Jobs", "customJobs", _job),
            ("Models", "models", _model),
            ("Endpoints", "endpoints", _endpoint),
        )
    ]


def _section(
    service: Service, title: str, kind: str, card: Callable[[Service, Json], Json]
) -> Json:
    resources = service.store.list_kind(kind)
    shown = [card(service, resource) for resource in resources[::-1][:MAX_SHOWN]]
    for made in shown:
        made["id"] = ResourceName.from_name(made["resource"]["name"]).id
    return {"title": title, "kind": kind, "count": len(resources), "cards": shown}


def _pipeline(service: Service, job: Json) -> Json:
    with suppress(OSError, ValueError):  # its folder was deleted meanwhile
        job = pipelines.with_tasks(service, job)
    tasks = job.get("jobDetail", {}).get("taskDetails", [])
    tasks = [task for task in tasks if task.get("startTime")]
    start = min((task["startTime"] for task in tasks), default="")
    total = max(seconds_between(start, job.get("endTime", "")), 0.001)
    bars = []
    for task in tasks:
        offset = 100 * seconds_between(start, task["startTime"]) / total
        width = 100 * seconds_between(task["startTime"], task.get("endTime", "")) / total
        bars.append({**task, "offset": min(offset, 99), "width": min(width, 100 - offset)})
    return {"resource": job, "tasks": bars}


def _schedule(service: Service, record: Json) -> Json:
    return {"resource": schedules.view(record)}


def _job(service: Service, job: Json) -> Json:
    folder = jobs.KIND.folder_of(service, job["name"])
    replicas: Json = {}
    with suppress(OSError, ValueError):
        replicas = processes.read_state(folder).get("replicas", {})
    return {"resource": job, "replicas": replicas}


def _model(service: Service, record: Json) -> Json:
    shown = registry.view(record, registry.find_version(record, ""))
    return {"resource": shown, "versions": record["versions"][::-1]}


def _endpoint(service: Service, endpoint: Json) -> Json:
    log = request_log.log_of(service)
    return {
        "resource": endpoint,
        "states": {
            deployed["id"]: deployments.status(service, endpoint["name"], deployed["id"])
            for deployed in endpoint.get("deployedModels", [])
        },
        "logged_rate": request_log.sampling_rate(endpoint),
        "logged_bytes": log.num_bytes(endpoint["name"]),
        "num_dropped": log.num_dropped(endpoint["name"]),
    }
