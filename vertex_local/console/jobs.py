"""Pages of jobs: custom jobs with their replicas, tuning with its trials, batch predictions."""

import math
from collections.abc import Callable

from vertex_local import Json
from vertex_local.api.routes import Call
from vertex_local.api.run_lifecycle import RunKind
from vertex_local.api.service import Service
from vertex_local.batch import resource as batch
from vertex_local.batch.prediction import SERVER
from vertex_local.console import lists, training, words
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


def prediction(service: Service, call: Call) -> Json:
    """Return what the page of a batch prediction shows: its files and the log of its server."""
    record = batch.KIND.get(service, call)
    path = batch.KIND.folder_of(service, record["name"]) / f"{SERVER}.log"
    model = service.store.find(record["model"].partition("@")[0])
    return {
        "job": record,
        "model": model,
        "run": lists.run_of(service, record),
        "log": tail(path) if path.is_file() else "",
    }


PAGES = [
    (jobs.KIND, job, "job.html"),
    (tuning.KIND, study, "study.html"),
    (batch.KIND, prediction, "prediction.html"),
]


def _views(kind: RunKind, content: Callable[[Service, Call], Json], template: str) -> list[View]:
    section = words.SECTIONS[kind.collection]

    def table(service: Service, call: Call) -> Json:
        return {**lists.page(service, call, kind.collection), "section": section}

    page = f"/{section}/{RESOURCE}"
    return [
        View(pattern=f"/{section}", content=table, template="jobs.html"),
        View(pattern=page, content=content, template=template),
        View(pattern=f"{page}:cancel", content=kind.cancel, method="POST"),
    ]


VIEWS = [view for page in PAGES for view in _views(*page)]
