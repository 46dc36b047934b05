"""Page with two to eight runs beside each other."""

from collections.abc import Mapping

from vertex_local import Json
from vertex_local.api.fields import run_facts
from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.console import training, words
from vertex_local.console.tasks import details_of, with_details
from vertex_local.console.web import View
from vertex_local.errors import invalid_argument

LEAST, MOST = 2, 8
METRICS_TYPE = "system.Metrics"
FACTS = ("gain", "baseline_gain", "cost", "seconds")


def compare(service: Service, call: Call) -> Json:
    """Return the settings that differ, metrics, other measurements and curves of marked runs."""
    names = list(dict.fromkeys(v for key, v in call.query.items() if key.startswith("run")))
    if not LEAST <= len(names) <= MOST:
        raise invalid_argument(f"Runs marked: {len(names)}; mark {LEAST} to {MOST} to compare.")
    records = [with_details(service, service.store.get(name)) for name in names]
    settings = [words.settings(record) for record in records]
    keys = sorted(set().union(*settings))
    differing = [key for key in keys if len({str(of_run.get(key)) for of_run in settings}) > 1]
    metrics = _metrics(records)
    measures = {
        title: texts for title, values in metrics.items() if any(texts := _texts(title, values))
    }
    return {
        "runs": records,
        "settings": {key: [of_run.get(key) for of_run in settings] for key in differing},
        "num_same": len(keys) - len(differing),
        "metrics": {title: metrics[title] for title in metrics if title not in measures},
        "measures": measures,
        "charts": training.charts([_series(service, record) for record in records]),
    }


def _metrics(records: list[Json]) -> dict[str, list[float | None]]:
    """Return a value for each run by metric; None if the run lacks it."""
    values = []
    for record in records:
        facts = run_facts(record)
        known = {name: facts[name] for name in FACTS if isinstance(facts.get(name), int | float)}
        values.append(known | _measured(record))
    titles = dict.fromkeys(title for of_run in values for title in of_run)
    return {title: [of_run.get(title) for of_run in values] for title in titles}


def _texts(title: str, values: list[float | None]) -> list[str]:
    """Return counts, latencies and the like with their units; "" for each value of a metric."""
    name = title.rpartition(" ")[2]
    return [words.measure(name, value) if value is not None else "" for value in values]


def _measured(record: Json) -> Json:
    """Return the numbers in the Metrics artifacts of a run, with the task and the artifact."""
    return {
        f"{detail['taskUniqueName']}/{artifact}: {name}": value
        for detail in details_of(record)
        for artifact, made in detail.get("outputs", {}).items()
        for entry in made["artifacts"]
        if entry.get("schemaTitle") == METRICS_TYPE
        for name, value in entry.get("metadata", {}).items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _series(service: Service, record: Json) -> Mapping[str, training.Points]:
    series: Mapping[str, training.Points] = {}
    for detail in details_of(record):
        for name in detail["jobs"]:
            series = training.series_of(service.store.find(name) or {}) or series
    return series


VIEWS = [View(pattern="/compare", content=compare, template="compare.html")]
