"""Pages of models: versions with aliases and evaluations, and the history of decisions.

README.md, "What the console reads", has the labels and the lines of descriptions.
"""

import re
from datetime import datetime

from vertex_local import Json
from vertex_local.api.query.fields import VERSIONS
from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.console import lists
from vertex_local.console.web import RESOURCE, View
from vertex_local.models import record as registry
from vertex_local.models import resource as models

# A version became the default: `acme_default_20261122t204959123z` = `promoted_run-3`.
DEFAULT_KEY = re.compile(r"[a-z]+_default_(\d{8}t\d{6})\d{3}z")
# A person decided: `[2026-11-26T11:31:39.123Z rejected by ann@desk] fares too low`.
DECISION = re.compile(r"\[(\S+Z) ([a-z]+) by (\S+)\] ?(.*)")


def table(service: Service, call: Call) -> Json:
    """Return a page of the models with their default versions and their endpoints."""
    page, endpoints = lists.page(service, call, "models"), service.store.list_kind("endpoints")
    shown = [_shown(models.resolve(service, record["name"]), endpoints) for record in page["rows"]]
    return {**page, "rows": shown}


def model(service: Service, call: Call) -> Json:
    """Return what the page of a model shows: its versions and its history, newest first."""
    default = models.resolve(service, call.name("models"))
    page = lists.page(service, call, VERSIONS, parent=default["name"])
    record = service.store.get(default["name"])
    listed = [registry.view(record, version) for version in page["rows"]]
    versions = [_version(service, version) for version in listed]
    events = [event for version in listed for event in _events(version)]
    return {
        **page,
        "model": _shown(default, service.store.list_kind("endpoints")),
        "versions": versions,
        "events": sorted(events, key=lambda event: event["time"], reverse=True),
        "runs": [version["run"] for version in versions if version["run"]],
    }


def _shown(version: Json, endpoints: list[Json]) -> Json:
    """Return a version, with the endpoints that have one of its model deployed."""
    serving = [
        (endpoint, deployed)
        for endpoint in endpoints
        for deployed in endpoint.get("deployedModels", [])
        if deployed["model"] == version["name"]
    ]
    labels = version.get("labels", {}).items()
    own = {key: value for key, value in labels if not DEFAULT_KEY.fullmatch(key)}
    return {**version, "labels": own, "serving": serving}


def _version(service: Service, version: Json) -> Json:
    name = f"{version['name']}@{version['versionId']}"
    lines = str(version.get("versionDescription", "")).splitlines()
    return {
        **_shown(version, []),
        "address": name,
        "description": [line for line in lines if not DECISION.fullmatch(line)],
        "evaluations": lists.page(service, Call({}), "evaluations", parent=name)["rows"],
        "run": lists.run_of(service, version),
    }


def _events(version: Json) -> list[Json]:
    """Return when a version was uploaded, became the default, and what people decided."""
    number = version["versionId"]
    events = [{"time": version["versionCreateTime"], "version": number, "what": "uploaded"}]
    for key, value in version.get("labels", {}).items():
        if match := DEFAULT_KEY.fullmatch(key):
            time = f"{datetime.strptime(match[1], '%Y%m%dt%H%M%S').isoformat()}Z"
            cause, _, why = str(value).partition("_")
            event = {"time": time, "version": number, "what": f"default: {cause}", "why": why}
            events.append(event)
    for line in str(version.get("versionDescription", "")).splitlines():
        if match := DECISION.fullmatch(line):
            fields = dict(zip(("time", "what", "who", "why"), match.groups(), strict=True))
            events.append({**fields, "version": number})
    return events


VIEWS = [
    View(pattern="/models", content=table, template="models.html"),
    View(pattern=f"/models/{RESOURCE}", content=model, template="model.html"),
]
