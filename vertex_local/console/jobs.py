"""Pages of custom jobs with their replicas, and of tuning jobs with their trials."""

from typing import Any

from vertex_local import Json
from vertex_local.api.routes import Call
from vertex_local.api.run_lifecycle import RunKind
from vertex_local.api.service import Service
from vertex_local.console import charts, lists, logs, progress, words
from vertex_local.console.web import RESOURCE, View
from vertex_local.jobs import resource as jobs
from vertex_local.tuning import resource as tuning

DRAWN = 6


def table(service: Service, call: Call) -> Json:
    """Return the rows of the jobs, newest first."""
    return lists.page(service, call, jobs.KIND.collection, lambda job: _shown(jobs.KIND, job))


def job(service: Service, call: Call) -> Json:
    """Return what the page of a job shows: its replicas, progress and logs."""
    record = jobs.KIND.get(service, call)
    listed = jobs.list_replicas(service, call)
    folder = jobs.KIND.folder_of(service, record["name"])
    output = record["jobSpec"].get("baseOutputDirectory", {}).get("outputUriPrefix", "")
    series = progress.series_of(output)
    drawn = [charts.chart(name, {name: points}) for name, points in series.items()]
    replicas = [_replica(one) for one in listed.get("replicas", [])]
    chosen = call.query.get("replica") or (replicas[0]["taskName"] if replicas else "")
    known = [one["taskName"] for one in replicas]
    return {
        "job": _shown(jobs.KIND, record),
        "replicas": replicas,
        "warnings": listed.get("warnings", []),
        "speed": progress.steps_per_second(series),
        "last": {name: points[-1][1] for name, points in series.items()},
        "charts": [chart for chart in drawn if chart][:DRAWN],
        "replica": chosen,
        "log": logs.tail(folder / f"{chosen}.log") if chosen in known else "",
    }


def tuning_table(service: Service, call: Call) -> Json:
    """Return the rows of the tuning jobs, newest first."""
    return lists.page(service, call, tuning.KIND.collection, lambda one: _shown(tuning.KIND, one))


def study(service: Service, call: Call) -> Json:
    """Return what the page of a tuning job shows: its trials, the best first."""
    record = tuning.KIND.get(service, call)
    metric = record["studySpec"]["metrics"][0]
    sign = 1 if metric["goal"] == "MINIMIZE" else -1
    trials = [_trial(trial) for trial in record.get("trials", [])]
    trials.sort(key=lambda one: (one["value"] is None, sign * (one["value"] or 0)))
    points = [(int(one["id"]), one["value"]) for one in trials if one["value"] is not None]
    return {
        "job": _shown(tuning.KIND, record),
        "metric": metric,
        "trials": trials,
        "parameters": [one["parameterId"] for one in record["studySpec"]["parameters"]],
        "chart": charts.chart(metric["metricId"], {metric["metricId"]: sorted(points)}),
    }


def cancel(service: Service, call: Call) -> Json:
    """Cancel a job."""
    jobs.KIND.cancel(service, call)
    return {"location": words.href(call.name(jobs.KIND.collection))}


def cancel_study(service: Service, call: Call) -> Json:
    """Cancel a tuning job."""
    tuning.KIND.cancel(service, call)
    return {"location": words.href(call.name(tuning.KIND.collection))}


def _shown(kind: RunKind, record: Json) -> Json:
    return {
        "name": record["name"],
        "title": record.get("displayName") or words.id_of(record["name"]),
        "state": record["state"],
        "created": record["createTime"],
        "start": record.get("startTime", ""),
        "end": record.get("endTime", ""),
        "error": record.get("error", {}).get("message", ""),
        "is_unfinished": kind.is_unfinished(record),
        "labels": lists.own_labels(record),
        "num_trials": len(record.get("trials", [])),
        "most_trials": record.get("maxTrialCount", ""),
    }


def _replica(status: Json) -> Json:
    empty = dict.fromkeys(("exitCode", "startTime", "endTime", "cpuSeconds", "lastLine"), "")
    num_bytes = status.get("memoryBytes") or status.get("peakMemoryBytes")
    return {**empty, "restarts": 0, **status, "bytes": num_bytes}


def _trial(trial: Json) -> Json:
    measured = trial.get("finalMeasurement") or (trial.get("measurements") or [{}])[-1]
    metrics = measured.get("metrics", [{}])
    return {
        "id": trial["id"],
        "state": trial["state"],
        "value": metrics[0].get("value", 0) if measured else None,
        "steps": measured.get("stepCount", ""),
        "start": trial.get("startTime", ""),
        "end": trial.get("endTime", ""),
        "reason": trial.get("infeasibleReason", ""),
        "job": trial.get("customJob", ""),
        "parameters": _parameters(trial.get("parameters", [])),
    }


def _parameters(parameters: list[Json]) -> dict[str, Any]:
    return {one["parameterId"]: one.get("value", 0) for one in parameters}


VIEWS = [
    View(pattern="/jobs", content=table, template="jobs.html"),
    View(pattern=f"/jobs/{RESOURCE}", content=job, template="job.html"),
    View(pattern=f"/jobs/{RESOURCE}:cancel", content=cancel, method="POST"),
    View(pattern="/tuning", content=tuning_table, template="tuning.html"),
    View(pattern=f"/tuning/{RESOURCE}", content=study, template="study.html"),
    View(pattern=f"/tuning/{RESOURCE}:cancel", content=cancel_study, method="POST"),
]
