"""Pages of custom jobs with their replicas, and of tuning jobs with their trials."""

import math
from functools import partial

from vertex_local import Json
from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.console import lists, training
from vertex_local.console.web import RESOURCE, View
from vertex_local.jobs import resource as jobs
from vertex_local.machine.files import tail
from vertex_local.tuning import resource as tuning
from vertex_local.tuning.record import value_of

MAX_CURVES = 8  # as many colours are distinguishable


def job(service: Service, call: Call) -> Json:
    """Return what the page of a job shows: its replicas, progress and the log of one."""
    record, listed = jobs.KIND.get(service, call), jobs.list_replicas(service, call)
    series = training.series_of(record)
    last = {name: points[-1][1] for name, points in series.items()}
    known = [replica["taskName"] for replica in listed.get("replicas", [])]
    chosen = call.query.get("replica", known[0] if known else "")
    folder = jobs.KIND.folder_of(service, record["name"])
    return {
        **listed,
        "job": record,
        "run": lists.run_of(service, record),
        "speed": last.get("steps_per_second") or (1000 / ms if (ms := last.get("step_ms")) else 0),
        "last": last,
        "charts": training.charts([series]),
        "replica": chosen,
        "log": tail(folder / f"{chosen}.log") if chosen in known else "",
    }


def study(service: Service, call: Call) -> Json:
    """Return what the page of a tuning job shows: its trials, the best first, and their curves."""
    record = tuning.KIND.get(service, call)
    metric = record["studySpec"]["metrics"][0]
    name, sign = metric["metricId"], 1 if metric["goal"] == "MINIMIZE" else -1
    trials = [{**trial, "value": _final_value(trial)} for trial in record.get("trials", [])]
    measured = sorted(
        (trial for trial in trials if trial["value"] is not None),
        key=lambda trial: sign * trial["value"],
    )
    best = measured[:MAX_CURVES]
    curves = [{f"{name} of the best {len(best)}": _curve(trial)} for trial in best]
    by_trial = sorted((float(trial["id"]), trial["value"]) for trial in measured)
    return {
        "job": record,
        "metric": metric,
        "trials": [*measured, *(trial for trial in trials if trial["value"] is None)],
        "charts": training.charts([{f"{name} by trial": by_trial}]) + training.charts(curves),
    }


def _final_value(trial: Json) -> float | None:
    final = trial.get("finalMeasurement") or (trial.get("measurements") or [None])[-1]
    return value if final and math.isfinite(value := value_of(final)) else None


def _curve(trial: Json) -> training.Points:
    points = [(float(m["stepCount"]), value_of(m)) for m in trial.get("measurements", [])]
    return [(step, value) for step, value in points if math.isfinite(value)]


VIEWS = [
    View(pattern="/jobs", content=partial(lists.page, kind="customJobs"), template="jobs.html"),
    View(pattern=f"/jobs/{RESOURCE}", content=job, template="job.html"),
    View(pattern=f"/jobs/{RESOURCE}:cancel", content=jobs.KIND.cancel, method="POST"),
    View(
        pattern="/tuning",
        content=partial(lists.page, kind="hyperparameterTuningJobs"),
        template="tuning.html",
    ),
    View(pattern=f"/tuning/{RESOURCE}", content=study, template="study.html"),
    View(pattern=f"/tuning/{RESOURCE}:cancel", content=tuning.KIND.cancel, method="POST"),
]
