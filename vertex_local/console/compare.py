"""Page that compares two to eight runs; each is held against the first."""

from typing import Any

from vertex_local import Json
from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.console import charts, progress, runs
from vertex_local.console.web import View
from vertex_local.errors import invalid_argument
from vertex_local.pipelines import resource as pipelines

LEAST, MOST = 2, 8
METRICS_TYPE = "system.Metrics"
BETTER, WORSE, SAME = "better", "worse", "same"
MAX_CHARTS = 8


def compare(service: Service, call: Call) -> Json:
    """Return the settings that differ, the metrics, and the curves of the marked runs."""
    names = list(dict.fromkeys(v for key, v in call.query.items() if key.startswith("run")))
    if not LEAST <= len(names) <= MOST:
        raise invalid_argument(f"{len(names)} runs are marked; mark {LEAST} to {MOST} to compare.")
    records = [pipelines.with_tasks(service, service.store.get(name)) for name in names]
    shown = [runs.shown(record) for record in records]
    settings = [run["settings"] for run in shown]
    keys = sorted(set().union(*settings))
    differing = [key for key in keys if len({str(one.get(key)) for one in settings}) > 1]
    return {
        "runs": shown,
        "settings": {key: [one.get(key, "") for one in settings] for key in differing},
        "num_same": len(keys) - len(differing),
        "metrics": _metrics(shown, records),
        "charts": _charts(service, shown, records),
    }


def _metrics(shown: list[Json], records: list[Json]) -> list[Json]:
    """Return a row per metric: its name, the values, and whether they are better or worse."""
    lower = _listed(shown, "lower_is_better") | {"cost", "seconds"}
    higher = _listed(shown, "higher_is_better") | {"gain"}
    values = [
        {**_facts(run), **_measured(record)} for run, record in zip(shown, records, strict=True)
    ]
    rows = []
    for name in dict.fromkeys(name for one in values for name in one):
        of_runs = [one.get(name) for one in values]
        metric = name.rpartition(" ")[2]
        sign = (metric in higher) - (metric in lower)
        row = [_judged(value, of_runs[0], sign) for value in of_runs]
        if any(value is not None for value in of_runs):
            rows.append({"name": name, "values": row, "is_judged": bool(sign)})
    intervals = [(run["gain_low"], run["gain_high"]) for run in shown]
    return [{**row, "intervals": intervals if row["name"] == "gain" else None} for row in rows]


def _judged(value: Any, base: Any, sign: int) -> Json:
    is_known = isinstance(value, int | float) and isinstance(base, int | float)
    difference = value - base if is_known else 0
    verdict = (SAME, BETTER, WORSE)[(difference * sign > 0) - (difference * sign < 0)]
    return {"value": value, "difference": difference, "verdict": verdict}


def _facts(run: Json) -> Json:
    facts = {name: run[name] for name in ("gain", "cost", "seconds")}
    return {name: value for name, value in facts.items() if value != ""}


def _listed(shown: list[Json], fact: str) -> set[str]:
    return {name for run in shown for name in str(run.get(fact, "")).split()}


def _measured(record: Json) -> Json:
    """Return the numbers in the Metrics artifacts of a run, with the task and the artifact."""
    return {
        f"{detail['taskName']}/{artifact}: {name}": value
        for detail in record.get("jobDetail", {}).get("taskDetails", [])
        for artifact, made in detail.get("outputs", {}).items()
        for one in made["artifacts"]
        if one.get("schemaTitle") == METRICS_TYPE
        for name, value in one.get("metadata", {}).items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _charts(service: Service, shown: list[Json], records: list[Json]) -> list[charts.Chart]:
    """Return the curves of the trainings of all runs, a chart per metric."""
    series = [_series(service, record) for record in records]
    names = dict.fromkeys(name for one in series for name in one)
    titles = [run["title"] for run in shown]
    drawn = [
        charts.chart(
            name, {title: one.get(name, []) for title, one in zip(titles, series, strict=True)}
        )
        for name in names
    ]
    return [chart for chart in drawn if chart][:MAX_CHARTS]


def _series(service: Service, record: Json) -> progress.Series:
    details = record.get("jobDetail", {}).get("taskDetails", [])
    for detail in details:
        for name in runs.jobs_of(detail["execution"].get("metadata", {})):
            job = service.store.find(name) or {}
            spec = job.get("jobSpec", {})
            series = progress.series_of(
                spec.get("baseOutputDirectory", {}).get("outputUriPrefix", "")
            )
            if series:
                return series
    return {}


VIEWS = [View(pattern="/compare", content=compare, template="compare.html")]
