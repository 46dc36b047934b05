"""Pages of models: versions with aliases and evaluations, and the history of decisions.

README.md, "What the console reads", has the labels and the lines of descriptions.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from vertex_local import Json
from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.console import lists, runs, words
from vertex_local.console.web import RESOURCE, View
from vertex_local.models import record as registry

BILLING_LABEL = "vertex-ai-pipelines-run-billing-id"
METRICS_KEY = "all_metrics"  # in an evaluation's metadata: those that no schema of Vertex AI has
# A version became the default: `acme_default_20261122t204959123z` = `promoted_run-3`.
DEFAULT_KEY = re.compile(r"[a-z]+_default_(\d{8}t\d{6})\d{3}z")
# A person decided: `[2026-11-26T11:31:39.123Z rejected by ann@desk] fares too low`.
DECISION = re.compile(r"\[(\S+Z) ([a-z]+) by (\S+)\] ?(.*)")


@dataclass(frozen=True, kw_only=True)
class Event:
    """Entry of a model's history."""

    time: str
    version: str
    what: str
    who: str
    why: str


def table(service: Service, call: Call) -> Json:
    """Return the rows of the models."""

    def shown(record: Json) -> Json:
        return {
            "name": record["name"],
            "title": record.get("displayName") or words.id_of(record["name"]),
            "versions": record["versions"],
            "default": registry.find_version(record, ""),
            "updated": record["updateTime"],
            "labels": _labels(record, registry.find_version(record, "")),
            "endpoints": list(_serving(service, record["name"])),
        }

    return lists.page(service, call, "models", shown)


def model(service: Service, call: Call) -> Json:
    """Return what the page of a model shows: its versions, newest first, and its history."""
    record = service.store.get(call.name("models"))
    versions = [_version(service, record, version) for version in record["versions"][::-1]]
    made_by = [version["run"] for version in versions if version["run"]]
    events = [event for version in record["versions"] for event in _events(version)]
    return {
        "name": record["name"],
        "title": record.get("displayName") or words.id_of(record["name"]),
        "description": record.get("description", ""),
        "versions": versions,
        "events": sorted(events, key=lambda event: event.time, reverse=True),
        "endpoints": list(_serving(service, record["name"])),
        "commands": next((run["commands"] for run in made_by if run["commands"]), ""),
    }


def _version(service: Service, record: Json, version: Json) -> Json:
    name = f"{record['name']}@{version['versionId']}"
    lines = str(version.get("versionDescription", "")).splitlines()
    return {
        "id": version["versionId"],
        "name": name,
        "aliases": version["versionAliases"],
        "created": version["versionCreateTime"],
        "uri": version.get("artifactUri", ""),
        "labels": _labels(record, version),
        "description": [line for line in lines if not DECISION.fullmatch(line)],
        "evaluations": [_evaluation(one) for one in service.store.list(f"{name}/evaluations")],
        "run": _run_of(service, version),
    }


def _labels(record: Json, version: Json) -> dict[str, str]:
    """Return the labels of a version without those of its history and of its run."""
    labels = {**record.get("labels", {}), **version.get("labels", {})}
    own = lists.own_labels({**record, "labels": labels})
    return {key: value for key, value in own.items() if not DEFAULT_KEY.fullmatch(key)}


def _evaluation(evaluation: Json) -> Json:
    further = evaluation.get("metadata", {}).get(METRICS_KEY, {})
    metrics = further or evaluation.get("metrics", {})
    numbers = {key: one for key, one in metrics.items() if isinstance(one, int | float)}
    title = evaluation.get("displayName") or words.id_of(evaluation["name"])
    return {"name": evaluation["name"], "title": title, "metrics": numbers}


def _run_of(service: Service, version: Json) -> Json | None:
    """Return the run that uploaded a version, by the label that both have."""
    billing_id = version.get("labels", {}).get(BILLING_LABEL, "")
    if not billing_id:
        return None
    query = f'labels.{BILLING_LABEL}="{billing_id}"'
    found = lists.page(service, Call({}), "pipelineJobs", runs.shown, filter_text=query, size=1)[
        "rows"
    ]
    return found[0] if found else None


def _serving(service: Service, name: str) -> Any:
    for endpoint in service.store.list_kind("endpoints"):
        for deployed in endpoint.get("deployedModels", []):
            if deployed["model"] == name:
                title = endpoint.get("displayName") or words.id_of(endpoint["name"])
                yield {
                    "name": endpoint["name"],
                    "title": title,
                    "version": deployed["modelVersionId"],
                    "percentage": endpoint.get("trafficSplit", {}).get(deployed["id"], 0),
                }


def _events(version: Json) -> list[Event]:
    number = version["versionId"]
    events = [
        Event(time=version["versionCreateTime"], version=number, what="uploaded", who="", why="")
    ]
    for key, value in version.get("labels", {}).items():
        if match := DEFAULT_KEY.fullmatch(key):
            time = datetime.strptime(match[1], "%Y%m%dt%H%M%S").isoformat() + "Z"
            cause, _, rest = str(value).partition("_")
            events.append(
                Event(time=time, version=number, what=f"default: {cause}", who="", why=rest)
            )
    for line in str(version.get("versionDescription", "")).splitlines():
        if match := DECISION.fullmatch(line):
            time, what, who, why = match.groups()
            events.append(Event(time=time, version=number, what=what, who=who, why=why))
    return events


VIEWS = [
    View(pattern="/models", content=table, template="models.html"),
    View(pattern=f"/models/{RESOURCE}", content=model, template="model.html"),
]
