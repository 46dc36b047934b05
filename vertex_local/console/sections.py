"""Sections of the console: pipeline runs, schedules, jobs, models, endpoints; newest first."""

import logging
from collections.abc import Callable

from vertex_local import Json
from vertex_local.api.database import model_record as registry
from vertex_local.api.resource_names import ResourceName
from vertex_local.api.service import Service
from vertex_local.console.charts import unmeasured, usage_charts
from vertex_local.console.markup import (
    ago,
    chips,
    elapsed,
    labels,
    link,
    pill,
    seconds_between,
    table,
    text,
)
from vertex_local.endpoints import deployments, log_files, request_log
from vertex_local.jobs import resource as jobs
from vertex_local.pipelines import resource as pipelines
from vertex_local.processes import group as processes
from vertex_local.processes.usage.curve import read_curves
from vertex_local.schedules import resource as schedules

logger = logging.getLogger(__name__)

MAX_SHOWN = 20
MEGABYTE = 1e6


def all_sections(service: Service) -> str:
    """Return the content of the page."""
    return "".join(
        _section(service, title, kind, render)
        for title, kind, render in (
            ("Pipeline runs", "pipelineJobs", _pipeline),
            ("Schedules", "schedules", _schedule),
            ("Jobs", "customJobs", _job),
            ("Models", "models", _model),
            ("Endpoints", "endpoints", _endpoint),
        )
    )


def _section(
    service: Service, title: str, kind: str, render: Callable[[Service, Json], str]
) -> str:
    resources = service.store.list_kind(kind)
    shown = resources[::-1][:MAX_SHOWN]
    cards = "".join(render(service, resource) for resource in shown)
    hidden = len(resources) - len(shown)
    more = f'<p class="empty">and {hidden} older</p>' if hidden else ""
    empty = '<p class="empty">none yet</p>'
    count = f'<span class="count">{len(resources)}</span>'
    return f"<section><h2>{title} {count}</h2>{cards or empty}{more}</section>"


def _card(head: str, *, side: str, body: str = "") -> str:
    return (
        f'<article><header><div>{head}</div><div class="side">{side}</div></header>{body}</article>'
    )


def _head(resource: Json, *, state: str = "") -> str:
    title = f"<strong>{text(resource.get('displayName') or _id(resource['name']))}</strong>"
    place = link(resource["name"], _id(resource["name"]))
    return f"{pill(state) if state else ''} {title} {place} {labels(resource)}"


def _error(resource: Json) -> str:
    message = resource.get("error", {}).get("message", "")
    return f"<pre>{text(message)}</pre>" if message else ""


def _timing(resource: Json) -> str:
    took = elapsed(resource.get("startTime", ""), resource.get("endTime", ""))
    return f"{text(took)} · {ago(resource['createTime'])}" if took else ago(resource["createTime"])


def _pipeline(service: Service, stored: Json) -> str:
    job = _with_tasks(service, stored)
    tasks = job.get("jobDetail", {}).get("taskDetails", [])
    tasks = [task for task in tasks if task.get("startTime")]
    body = _timeline(job, tasks) if tasks else ""
    return _card(_head(job, state=job["state"]), side=_timing(job), body=body + _error(job))


def _with_tasks(service: Service, job: Json) -> Json:
    try:
        return pipelines.with_tasks(service, job)
    except (OSError, ValueError):  # its folder was deleted meanwhile
        return job


def _timeline(job: Json, tasks: list[Json]) -> str:
    start = min(task["startTime"] for task in tasks)
    total = max(seconds_between(start, job.get("endTime", "")), 0.001)
    rows = []
    for task in tasks:
        offset = 100 * seconds_between(start, task["startTime"]) / total
        width = 100 * seconds_between(task["startTime"], task.get("endTime", "")) / total
        bar = f"margin-left:{min(offset, 99):.2f}%;width:{min(width, 100 - offset):.2f}%"
        state = task.get("state", "")
        rows.append(
            (
                text(task.get("taskName", "")),
                pill("CACHED" if state == "SKIPPED" else state),
                text(elapsed(task["startTime"], task.get("endTime", ""))),
                f'<div class="bar {text(state.lower())}" style="{bar}"></div>',
            )
        )
    return table(("task", "state", "took", ""), rows)


def _schedule(service: Service, record: Json) -> str:
    schedule = schedules.view(record)
    of = f" of {schedule['maxRunCount']}" if "maxRunCount" in schedule else ""
    row = (
        f"<code>{text(schedule['cron'])}</code>",
        text(schedule.get("nextRunTime", "")),
        text(f"{schedule['startedRunCount']}{of}"),
        text(schedule.get("lastScheduledRunResponse", {}).get("scheduledRunTime", "")),
    )
    body = table(("cron", "next run", "runs started", "last run"), [row])
    head = _head(schedule, state=schedule["state"])
    return _card(head, side=ago(schedule["createTime"]), body=body)


def _job(service: Service, job: Json) -> str:
    replicas = _replicas(service, job)
    rows = [
        (
            text(name),
            pill(replica.get("state", "")),
            text("" if replica.get("exit_code") is None else replica["exit_code"]),
            text(replica.get("pid") or ""),
        )
        for name, replica in replicas.items()
    ]
    body = table(("replica", "state", "exit code", "pid"), rows) if rows else ""
    curves = read_curves(jobs.KIND.folder_of(service, job["name"]))
    body += usage_charts(curves) + unmeasured(curves, list(replicas))
    return _card(_head(job, state=job["state"]), side=_timing(job), body=body + _error(job))


def _replicas(service: Service, job: Json) -> Json:
    try:
        state = processes.read_state(jobs.KIND.folder_of(service, job["name"]))
    except (OSError, ValueError):
        return {}
    replicas: Json = state.get("replicas", {})
    return replicas


def _model(service: Service, record: Json) -> str:
    rows = [
        (
            link(f"{record['name']}@{version['versionId']}", version["versionId"]),
            chips(version["versionAliases"]),
            ago(version["versionCreateTime"]),
            f"<code>{text(version.get('artifactUri', ''))}</code>",
        )
        for version in reversed(record["versions"])
    ]
    body = table(("version", "aliases", "created", "artifact"), rows)
    shown = registry.view(record, registry.find_version(record, ""))
    return _card(_head(shown), side=ago(record["updateTime"]), body=body)


def _endpoint(service: Service, endpoint: Json) -> str:
    split = endpoint.get("trafficSplit", {})
    rows = [
        (
            text(deployed["id"]),
            text(deployed["displayName"]),
            link(
                f"{deployed['model']}@{deployed['modelVersionId']}",
                f"{_id(deployed['model'])}@{deployed['modelVersionId']}",
            ),
            f"{split.get(deployed['id'], 0)}%",
            f'<div class="bar succeeded" style="width:{split.get(deployed["id"], 0)}%"></div>',
            _serving_state(service, endpoint["name"], deployed["id"]),
        )
        for deployed in endpoint.get("deployedModels", [])
    ]
    heads = ("deployed model", "name", "version", "traffic", "", "server")
    body = table(heads, rows) if rows else '<p class="empty">no model is deployed</p>'
    body += _request_log(service, endpoint)
    return _card(_head(endpoint), side=ago(endpoint["createTime"]), body=body)


def _request_log(service: Service, endpoint: Json) -> str:
    """Return the share of requests that are logged, and the size of the log."""
    rate = request_log.sampling_rate(endpoint)
    log = request_log.log_of(service)
    num_bytes = log_files.size_of(log.folder_of(endpoint["name"]))
    if not rate and not num_bytes:
        return ""
    dropped = log.num_dropped(endpoint["name"])
    words = f"logs {100 * rate:.3g}% of its requests, {num_bytes / MEGABYTE:,.1f} MB"
    words += f", {dropped} dropped" if dropped else ""
    path = f"{endpoint['name']}/loggedRequests"
    return f'<p class="empty">{text(words)} {link(path, "newest")}</p>'


def _serving_state(service: Service, endpoint_name: str, deployed_id: str) -> str:
    found = deployments.status(service, endpoint_name, deployed_id)
    restarts = f" restarts: {found['restarts']}" if found.get("restarts") else ""
    return f'<span title="{text(found.get("message", ""))}">{pill(found["state"])}{restarts}</span>'


def _id(name: str) -> str:
    return ResourceName.from_name(name).id
