"""Pages of models: versions with their aliases, evaluations and endpoints."""

from vertex_local import Json
from vertex_local.api.fields import VERSIONS
from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.console import lists
from vertex_local.console.history import with_history
from vertex_local.console.tasks import details_of, with_details
from vertex_local.console.web import RESOURCE, View
from vertex_local.models import record as registry
from vertex_local.models import resource as models


def table(service: Service, call: Call) -> Json:
    """Return a page of the models with their default versions and their endpoints."""
    page, endpoints = lists.page(service, call, "models"), service.store.list_kind("endpoints")
    shown = [_shown(models.resolve(service, record["name"]), endpoints) for record in page["rows"]]
    return {**page, "rows": shown}


def model(service: Service, call: Call) -> Json:
    """Return what the page of a model shows: its versions, newest first, or one and its tasks."""
    default = models.resolve(service, call.name("models"))
    page = lists.page(service, call, VERSIONS, parent=default["name"])
    record, asked = service.store.get(default["name"]), call.query.get("version", "")
    views = [registry.view(record, version) for version in page["rows"]]
    if asked:
        views = [models.resolve(service, f"{default['name']}@{asked}")]
    versions = [_version(service, view) for view in views]
    runs = [version["run"] for version in versions if version["run"]]
    return {
        **page,
        "model": _shown(default, service.store.list_kind("endpoints")),
        "versions": versions,
        "runs": runs,
        "tasks": [task for run in runs if asked for task in details_of(with_details(service, run))],
    }


def _shown(version: Json, endpoints: list[Json]) -> Json:
    """Return a version, with the endpoints that have one of its model deployed."""
    serving = [
        (endpoint, deployed)
        for endpoint in endpoints
        for deployed in endpoint.get("deployedModels", [])
        if deployed["model"] == version["name"]
    ]
    return {**version, "serving": serving}


def _version(service: Service, version: Json) -> Json:
    name = f"{version['name']}@{version['versionId']}"
    return {
        **with_history(version),
        "address": name,
        "evaluations": lists.page(service, Call({}), "evaluations", parent=name)["rows"],
        "run": lists.run_of(service, version),
    }


VIEWS = [
    View(pattern="/models", content=table, template="models.html"),
    View(pattern=f"/models/{RESOURCE}", content=model, template="model.html"),
]
