"""Page that compares two to eight runs; each is held against the first."""

import math
from collections.abc import Mapping

from vertex_local import Json
from vertex_local.api.query.fields import run_facts
from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.console import runs, training, words
from vertex_local.console.web import View
from vertex_local.errors import invalid_argument

LEAST, MOST = 2, 8
METRICS_TYPE = "system.Metrics"
GAIN = "gain"  # without differences: runs may have gains over different models
Ends = tuple[float, float]
FACTS = (GAIN, "cost", "seconds")  # not judged: a run that fails or has cached tasks is short


def compare(service: Service, call: Call) -> Json:
    """Return the settings that differ, the metrics, and the curves of the marked runs."""
    names = list(dict.fromkeys(v for key, v in call.query.items() if key.startswith("run")))
    if not LEAST <= len(names) <= MOST:
        raise invalid_argument(f"Runs marked: {len(names)}; mark {LEAST} to {MOST} to compare.")
    records = [runs.with_details(service, service.store.get(name)) for name in names]
    settings = [words.settings(record) for record in records]
    keys = sorted(set().union(*settings))
    differing = [key for key in keys if len({str(of_run.get(key)) for of_run in settings}) > 1]
    return {
        "runs": records,
        "settings": {key: [of_run.get(key) for of_run in settings] for key in differing},
        "num_same": len(keys) - len(differing),
        "metrics": _metrics(records),
        "charts": training.charts([_series(service, record) for record in records]),
    }


def _metrics(records: list[Json]) -> dict[str, list[Json]]:
    facts = [run_facts(record) for record in records]
    lower, higher = (
        {metric for of_run in facts for metric in str(of_run.get(fact, "")).split()}
        for fact in ("lower_is_better", "higher_is_better")
    )
    signs = {**dict.fromkeys(lower, -1), **dict.fromkeys(higher, 1)}
    values = [
        {
            **{name: of_run[name] for name in FACTS if isinstance(of_run.get(name), int | float)},
            **_measured(record),
        }
        for of_run, record in zip(facts, records, strict=True)
    ]
    rows: dict[str, list[Json]] = {}
    for title in dict.fromkeys(title for of_run in values for title in of_run):
        name = title.rpartition(" ")[2]
        cells = [
            {
                "value": of_run.get(title),
                "low": of_facts.get(f"{name}_low"),
                "high": of_facts.get(f"{name}_high"),
            }
            for of_run, of_facts in zip(values, facts, strict=True)
        ]
        if title != GAIN:
            own = [_ends_of_gain(of_facts, facts[0], name) for of_facts in facts]
            cells = [
                {**cell, **_judged(cell, cells[0], signs.get(name, 0), ends)}
                for cell, ends in zip(cells, own, strict=True)
            ]
        rows[title] = cells
    return rows


def _ends_of_gain(facts: Json, first: Json, metric: str) -> Ends | None:
    """Return the ends of a run's gain in a metric, if it is over the model of the first run."""
    is_over_first = facts.get("gain_over") and facts["gain_over"] == first.get("model")
    if not is_over_first or facts.get("metric") != metric:
        return None
    low, high = facts.get("gain_low"), facts.get("gain_high")
    return None if low is None or high is None else (low, high)


def _judged(cell: Json, base: Json, sign: int, own: Ends | None) -> Json:
    """Return the difference from the first run, the ends of its interval, and a verdict.

    `own` are the ends of the gain over the first run's model, measured example by example.
    """
    if None in (cell["value"], base["value"]):
        return {}
    difference = cell["value"] - base["value"]
    gain = difference * sign
    verdict = "better" if gain > 0 else "worse" if gain < 0 else ""
    ends = (cell["low"], cell["high"], base["low"], base["high"])
    if own and own[0] <= gain <= own[1]:  # else the first run was measured on other examples
        low, high = sorted(sign * end for end in own)
    elif all(isinstance(end, int | float) for end in ends):
        # As if of independent examples; of the same ones the interval is shorter.
        half = math.hypot(cell["high"] - cell["low"], base["high"] - base["low"]) / 2
        low, high = difference - half, difference + half
    else:
        return {"difference": difference, "verdict": verdict}
    is_sure = low > 0 or high < 0
    return {"difference": difference, "ends": (low, high), "verdict": verdict, "is_sure": is_sure}


def _measured(record: Json) -> Json:
    """Return the numbers in the Metrics artifacts of a run, with the task and the artifact."""
    return {
        f"{detail['taskUniqueName']}/{artifact}: {name}": value
        for detail in record.get("jobDetail", {}).get("taskDetails", [])
        for artifact, made in detail.get("outputs", {}).items()
        for entry in made["artifacts"]
        if entry.get("schemaTitle") == METRICS_TYPE
        for name, value in entry.get("metadata", {}).items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _series(service: Service, record: Json) -> Mapping[str, training.Points]:
    series: Mapping[str, training.Points] = {}
    for detail in record.get("jobDetail", {}).get("taskDetails", []):
        for name in detail["jobs"]:
            series = training.series_of(service.store.find(name) or {}) or series
    return series


VIEWS = [View(pattern="/compare", content=compare, template="compare.html")]
