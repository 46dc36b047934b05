"""Pages of pipeline runs: the table, a run, and a task with its log."""

import sqlite3
from pathlib import Path

from vertex_local import Json
from vertex_local.api import fields
from vertex_local.api.routes import Call, Message
from vertex_local.api.service import Service
from vertex_local.console import dag, lists, words
from vertex_local.console.tasks import details_of, with_details
from vertex_local.console.web import RESOURCE, View, file_message
from vertex_local.errors import not_found
from vertex_local.machine.files import local_path, tail
from vertex_local.pipelines import resource as pipelines

CHOICES = ("outcome", "workload")
COLUMNS = {
    "outcome": "outcome",
    "display_name": "run",
    "workload": "workload",
    "model": "version",
    "value": "metric",
    "gain": "gain",
    "baseline_gain": "over a baseline",
    "create_time": "started",
    "seconds": "took",
    "cost": "cost",
}
SEARCHED = ("display_name", "pipeline_job_user_id", "model", *CHOICES)
PAGE_TYPE, SUCCEEDED, UNTRIGGERED = "system.HTML", "PIPELINE_STATE_SUCCEEDED", "NOT_TRIGGERED"


def table(service: Service, call: Call) -> Json:
    """Return the rows of a page of the table, with its filter, order and columns."""
    asked = {name: call.query.get(name, "") for name in ("q", "show", *CHOICES)}
    asked["sort"] = call.query.get("sort") or lists.NEWEST
    page = lists.page(
        service,
        call,
        pipelines.KIND.collection,
        fields=fields.RUNS,
        filter_text=_filter(asked),
        order_by=asked["sort"],
    )
    rows = [service.store.with_spec(row) for row in page["rows"][: None if asked["show"] else 1]]
    return {
        **page,
        "settings": [words.settings(row) for row in rows],
        "starters": [_starter(service, row) for row in page["rows"]],
        "asked": asked,
        "columns": COLUMNS,
        "options": _options(service),
    }


def run(service: Service, call: Call) -> Json:
    """Return what the page of a run shows."""
    record = with_details(service, service.store.get(call.name(pipelines.KIND.collection)))
    tasks = details_of(record)
    starts = [task["startTime"] for task in tasks if task.get("startTime")]
    start = min(starts, default=record["createTime"])
    total = max(words.seconds_between(start, record.get("endTime", "")), 0.001)
    artifacts = [artifact for task in tasks for artifact in _artifacts(task, "outputs")]
    names = [*(job for task in tasks for job in task["jobs"]), *map(_resource_name, artifacts)]
    drawn = dag.draw(record.get("pipelineSpec", {}), tasks)
    places = {node["key"]: (node["y"], node["x"]) for node in drawn["nodes"]}
    started = 0, 0  # in the order of their starts, before those that were not reached
    tasks.sort(key=lambda task: places[task["key"]] if task["state"] == UNTRIGGERED else started)
    return {
        "run": record,
        "starter": _starter(service, record),
        "made": list(filter(None, (_with_page(service, name) for name in dict.fromkeys(names)))),
        "tasks": [task | _bar(task, start, total) for task in tasks],
        "dag": drawn,
    }


def task(service: Service, call: Call) -> Json:
    """Return what the page of a task shows: why it ran, its inputs and outputs, its log."""
    record, detail = _task(service, call)
    metadata = detail["execution"].get("metadata", {})
    folder = pipelines.KIND.folder_of(service, record["name"])
    page = f"{words.href(record['name'])}/tasks/{detail['taskUniqueName']}"
    preamble, log = words.own_log(tail(folder / "tasks" / f"{detail['taskUniqueName']}.log"))
    for name, made in detail.get("outputs", {}).items():
        for artifact in made["artifacts"]:
            artifact["page"] = f"{page}/{name}" if _path(artifact).is_file() else ""
    for artifact in [*_artifacts(detail, "inputs"), *_artifacts(detail, "outputs")]:
        if resource := _with_page(service, _resource_name(artifact)):
            artifact["page"] = words.href(resource["name"])
    return {
        "run": record,
        "task": detail,
        "reason": _reason(record, detail, note=metadata.get("note", "")),
        "metadata": metadata,
        "jobs": [job for job in detail["jobs"] if _with_page(service, job)],
        "preamble": preamble,
        "log": log,
    }


def artifact(service: Service, call: Call) -> Message:
    """Return the file of an output artifact: a page, or the start of a text."""
    _, detail = _task(service, call)
    for made in detail.get("outputs", {}).get(call.args["name"], {}).get("artifacts", []):
        return file_message(_path(made), is_page=made["schemaTitle"] == PAGE_TYPE)
    raise not_found(f"output {call.args['name']} of the task {call.args['task']}")


def report(service: Service, call: Call) -> Message:
    """Return the report that the run has beside its summary, or a page that it links to.

    That is beside it, or in an output folder of a task, `TASK/OUTPUT/NAME.html`.
    """
    facts = fields.run_facts(service.store.get(call.name("pipelineJobs")))
    summary = local_path(str(facts.get("summary_uri", "")))
    if not (summary and facts.get("report")):
        raise not_found("A report of this run")
    parts = [call.args[part] for part in ("task", "output", "page") if part in call.args]
    path = summary.parent / ("/".join(parts) + ".html" if parts else Path(facts["report"]).name)
    if not path.resolve().is_relative_to(summary.parent.resolve()):
        raise not_found(f"Page {path.name}")
    return file_message(path, is_page=True)


def _artifacts(detail: Json, kind: str) -> list[Json]:
    return [artifact for made in detail.get(kind, {}).values() for artifact in made["artifacts"]]


def _path(artifact: Json) -> Path:
    return local_path(artifact["uri"]) or Path(artifact["uri"])


def _resource_name(artifact: Json) -> str:
    """Return the name of the resource that an artifact of Google's components stands for."""
    return str(artifact.get("metadata", {}).get("resourceName", "")).partition("@")[0]


def _with_page(service: Service, name: str) -> Json | None:
    """Return the resource of a name, None if it is deleted or has no page."""
    resource = service.store.find(name)
    return resource if resource and name.split("/")[-2] in words.SECTIONS else None


def _starter(service: Service, run: Json) -> str:
    """Return the schedule that started a run, or the person in its label `NAME_by`."""
    if name := run.get("scheduleName"):
        return words.title(service.store.find(name) or {"name": name})
    labels: dict[str, str] = run.get("labels", {})
    return next((labels[key] for key in labels if key.endswith("_by")), "by hand")


def _filter(asked: dict[str, str]) -> str:
    """Return the filter of the words of a search, `key=value` for a label, and the choices."""
    terms = [f"{name}={_quoted(asked[name])}" for name in CHOICES if asked[name]]
    for term in asked["q"].split():
        key, is_label, value = term.partition("=") if term[0] != "=" else (term, "", "")
        named = " OR ".join(f"{field}={_quoted(f'*{term}*')}" for field in SEARCHED)
        terms.append(f"labels.{_quoted(key)}={_quoted(value)}" if is_label else named)
    return " AND ".join(f"({term})" for term in terms)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", r"\\").replace('"', r"\"") + '"'


def _options(service: Service) -> dict[str, list[str]]:
    sql = "SELECT DISTINCT {0} FROM listed WHERE collection GLOB ? AND {0} != '' ORDER BY {0}"
    options = {}

    def read(connection: sqlite3.Connection) -> tuple[list[int], str]:
        for name in CHOICES:
            rows = connection.execute(sql.format(name), ("projects/*/pipelineJobs",))
            options[name] = [row[0] for row in rows]
        return [], ""

    service.store.page(read)
    return options


def _bar(task: Json, start: str, total: float) -> Json:
    """Return the place of a task in the time of its run, in percent."""
    if not task.get("startTime"):
        return {}
    offset = min(100 * words.seconds_between(start, task["startTime"]) / total, 99)
    width = 100 * words.seconds_between(task["startTime"], task.get("endTime", "")) / total
    return {"offset": offset, "width": min(width, 100 - offset)}


def _task(service: Service, call: Call) -> tuple[Json, Json]:
    record = with_details(service, service.store.get(call.name(pipelines.KIND.collection)))
    for detail in details_of(record):
        if detail["taskUniqueName"] == call.args["task"]:
            return record, detail
    raise not_found(f"Task {call.args['task']} of {record['name']}")


def _reason(record: Json, detail: Json, *, note: str) -> str:
    """Return why a task was or was not executed."""
    if detail["state"] == "SKIPPED":
        return "not executed: an earlier run had the same inputs and the same code"
    if detail["state"] == UNTRIGGERED:
        other = ", or a task before it failed" if record["state"] != SUCCEEDED else ""
        return f"not executed: its condition was false{other}"
    component, _, name = detail["key"].rpartition("/")
    options = dag.tasks_of(record["pipelineSpec"], component)[name].get("cachingOptions", {})
    if not note and not options.get("enableCache"):
        return "executed: the pipeline does not let it use the cache"
    return f"executed: {note or 'no earlier run has outputs for these inputs and this code'}"


PAGE = f"/runs/{RESOURCE}"
VIEWS = [
    View(pattern="/runs", content=table, template="runs.html"),
    View(pattern=PAGE, content=run, template="run.html"),
    View(pattern=f"{PAGE}/report", content=report),
    View(pattern=f"{PAGE}/<page>.html", content=report),
    View(pattern=f"{PAGE}/<task>/<output>/<page>.html", content=report),
    View(pattern=f"{PAGE}/tasks/<task>", content=task, template="task.html"),
    View(pattern=f"{PAGE}/tasks/<task>/<name>", content=artifact),
    View(pattern=f"{PAGE}:cancel", content=pipelines.KIND.cancel, method="POST"),
]
