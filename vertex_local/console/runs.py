"""Pages of pipeline runs: the table, a run, and a task with its log that follows."""

import json
import sqlite3
from pathlib import Path
from typing import Any

from vertex_local import Json
from vertex_local.api.query import fields
from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.console import dag, lists, logs, words
from vertex_local.console.web import RESOURCE, View, file_message
from vertex_local.errors import not_found
from vertex_local.machine import lost_and_found
from vertex_local.machine.files import local_path
from vertex_local.pipelines import resource as pipelines

MAX_NOTES = 20
CHOICES = ("outcome", "workload")
COLUMNS = {
    "outcome": "outcome",
    "display_name": "run",
    "workload": "workload",
    "value": "metric",
    "gain": "gain",
    "create_time": "started",
    "seconds": "took",
    "cost": "cost",
}
SEARCHED = ("display_name", "pipeline_job_user_id", *CHOICES)
PAGE_TYPE = "system.HTML"


def table(service: Service, call: Call) -> Json:
    """Return the rows of a page of the table, with its filter, order and columns."""
    asked = {name: call.query.get(name, "") for name in ("q", "show", *CHOICES)}
    sort = call.query.get("sort", "create_time desc")
    page = lists.page(
        service,
        call,
        pipelines.KIND.collection,
        shown,
        fields=fields.RUNS,
        filter_text=_filter(asked),
        order_by=sort,
    )
    return {
        **page,
        "asked": {**asked, "sort": sort},
        "columns": COLUMNS,
        "settings": asked["show"].replace(",", " ").split(),
        "known_settings": sorted({name for run in page["rows"] for name in run["settings"]}),
        "options": _options(service),
        "notes": lost_and_found.notes(service.root)[-MAX_NOTES:],
        "lost": service.root / lost_and_found.FOLDER,
    }


def shown(record: Json) -> Json:
    """Return what pages show of a run."""
    facts = fields.run_facts(record)
    texts = ("metric", "value", "gain", "gain_low", "gain_high", "cost", "model")
    return {
        **dict.fromkeys((*texts, "reasons", "report", "commands"), ""),
        **facts,
        "tone": facts.get("tone") or words.tone(record["state"]),
        "name": record["name"],
        "title": record.get("displayName") or words.id_of(record["name"]),
        "state": record["state"],
        "created": record["createTime"],
        "ended": record.get("endTime", ""),
        "is_unfinished": pipelines.KIND.is_unfinished(record),
        "error": record.get("error", {}).get("message", ""),
        "settings": settings_of(record),
        "labels": lists.own_labels(record),
    }


def settings_of(run: Json) -> dict[str, Any]:
    """Return the parameters of a run; those that are a JSON object by their keys."""
    settings: dict[str, Any] = {}
    for name, value in run.get("runtimeConfig", {}).get("parameterValues", {}).items():
        content = _object(value)
        settings |= {name: value} if content is None else _flat(name, content)
    return {name: value for name, value in sorted(settings.items()) if value not in ("", None)}


def run(service: Service, call: Call) -> Json:
    """Return what the page of a run shows."""
    record = pipelines.get(service, call)
    tasks = record.get("jobDetail", {}).get("taskDetails", [])
    starts = [task["startTime"] for task in tasks if task.get("startTime")]
    start, end = min(starts, default=record["createTime"]), record.get("endTime", "")
    total = max(words.seconds_between(start, end), 0.001)
    return {
        "run": shown(record),
        "tasks": [_bar(task, start, total) for task in tasks],
        "dag": dag.draw(record.get("pipelineSpec", {}), tasks),
    }


def task(service: Service, call: Call) -> Json:
    """Return what the page of a task shows: why it ran, its inputs and outputs, its log."""
    record = pipelines.get(service, call)
    detail = _task(record, call.args["task"])
    metadata = detail["execution"].get("metadata", {})
    folder = pipelines.KIND.folder_of(service, record["name"])
    return {
        "run": shown(record),
        "task": detail,
        "reason": _reason(record, detail, note=metadata.get("note", "")),
        "values_of": {kind: _values(metadata, kind) for kind in ("input", "output")},
        "artifacts": {kind: _artifacts(detail, f"{kind}s") for kind in ("input", "output")},
        "jobs": jobs_of(metadata),
        "log": logs.tail(folder / "tasks" / f"{call.args['task']}.log"),
    }


def artifact(service: Service, call: Call) -> Json:
    """Return the file of an output artifact: a page, or the start of a text."""
    detail = _task(pipelines.get(service, call), call.args["task"])
    made = {one["displayName"]: one for one in _artifacts(detail, "outputs")}
    if call.args["name"] not in made:
        raise not_found(f"output {call.args['name']} of the task {call.args['task']}")
    chosen = made[call.args["name"]]
    path = local_path(chosen["uri"])
    is_page = chosen["schemaTitle"] == PAGE_TYPE
    return {"file": file_message(path or Path(chosen["uri"]), is_page=is_page)}


def report(service: Service, call: Call) -> Json:
    """Return the report that the run has beside its summary."""
    facts = fields.run_facts(service.store.get(call.name("pipelineJobs")))
    summary = local_path(str(facts.get("summary_uri", "")))
    if not (summary and facts.get("report")):
        raise not_found("A report of this run")
    return {"file": file_message(summary.parent / Path(facts["report"]).name, is_page=True)}


def cancel(service: Service, call: Call) -> Json:
    """Cancel a run."""
    name = call.name(pipelines.KIND.collection)
    pipelines.KIND.cancel(service, call)
    return {"location": words.href(name)}


def _filter(asked: dict[str, str]) -> str:
    """Return the filter of the words of a search, `key=value` for a label, and the choices."""
    terms = [f"{name}={_quoted(asked[name])}" for name in CHOICES if asked[name]]
    for term in asked["q"].split():
        key, is_label, value = term.partition("=")
        named = [f"{field}={_quoted(f'*{term}*')}" for field in SEARCHED]
        terms += [f"labels.{_quoted(key)}={_quoted(value)}"] if is_label else [" OR ".join(named)]
    return " AND ".join(f"({term})" for term in terms)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", r"\\").replace('"', r"\"") + '"'


def _options(service: Service) -> dict[str, list[str]]:
    """Return the outcomes and the workloads that runs have."""
    sql = "SELECT DISTINCT {0} FROM listed WHERE collection GLOB ? AND {0} != '' ORDER BY {0}"
    options = {}

    def read(connection: sqlite3.Connection) -> tuple[list[int], str]:
        for name in CHOICES:
            rows = connection.execute(sql.format(name), (COLLECTION,))
            options[name] = [row[0] for row in rows]
        return [], ""

    service.store.page(read)
    return options


def _object(value: Any) -> Json | None:
    try:
        content = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _flat(name: str, content: Json) -> Json:
    flat: Json = {}
    for key, value in content.items():
        path = f"{name}.{key}"
        flat |= _flat(path, value) if isinstance(value, dict) else {path: value}
    return flat


def _bar(task: Json, start: str, total: float) -> Json:
    bar = {**task, "offset": 0.0, "width": 0.0}
    if task.get("startTime"):
        offset = min(100 * words.seconds_between(start, task["startTime"]) / total, 99)
        width = 100 * words.seconds_between(task["startTime"], task.get("endTime", "")) / total
        bar |= {"offset": offset, "width": min(width, 100 - offset)}
    return bar


def _task(record: Json, name: str) -> Json:
    for detail in record.get("jobDetail", {}).get("taskDetails", []):
        if detail["taskUniqueName"] == name:
            return {"endTime": "", "startTime": "", "error": {}, **detail}
    raise not_found(f"Task {name} of {record['name']}")


def _reason(record: Json, detail: Json, *, note: str) -> str:
    """Return why a task was or was not executed."""
    state, spec_task = detail["state"], dag.tasks_of(record["pipelineSpec"]).get(detail["taskName"])
    if state == "SKIPPED":
        return "not executed: an earlier run had the same inputs and the same code"
    if state == "NOT_TRIGGERED":
        return "not executed: its condition was false, or a task before it failed"
    if note:
        return f"executed: {note}"
    if spec_task and not spec_task.get("cachingOptions", {}).get("enableCache"):
        return "executed: the pipeline does not let it use the cache"
    return "executed: no earlier run has outputs for these inputs and this code"


def _values(metadata: Json, kind: str) -> Json:
    prefix = f"{kind}:"
    return {
        name.removeprefix(prefix): value if isinstance(value, str) else json.dumps(value)
        for name, value in sorted(metadata.items())
        if name.startswith(prefix) and value not in ("", None)
    }


def _artifacts(detail: Json, kind: str) -> list[Json]:
    """Return the artifacts; one that is a model or an endpoint has the name of its `resource`."""
    return [
        {
            **{"uri": "", "schemaTitle": "", "metadata": {}},
            **one,
            "displayName": name,
            "resource": one.get("metadata", {}).get("resourceName", ""),
        }
        for name, made in sorted(detail.get(kind, {}).items())
        for one in made["artifacts"]
    ]


def jobs_of(metadata: Json) -> list[str]:
    """Return the names of the jobs that a task of Google's components has created."""
    resources = (_object(metadata.get("output:gcp_resources", "")) or {}).get("resources", [])
    uris = [str(one.get("resourceUri", "")) for one in resources]
    return [uri.partition("/v1/")[2] for uri in uris if "/customJobs/" in uri]


COLLECTION = "projects/*/pipelineJobs"
VIEWS = [
    View(pattern="/", content=table, template="runs.html"),
    View(pattern="/runs", content=table, template="runs.html"),
    View(pattern=f"/runs/{RESOURCE}", content=run, template="run.html"),
    View(pattern=f"/runs/{RESOURCE}/report", content=report),
    View(pattern=f"/runs/{RESOURCE}/tasks/<task>", content=task, template="task.html"),
    View(pattern=f"/runs/{RESOURCE}/tasks/<task>/<name>", content=artifact),
    View(pattern=f"/runs/{RESOURCE}:cancel", content=cancel, method="POST"),
]
