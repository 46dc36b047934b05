"""Pages of endpoints: traffic, rate, latency and errors, and a form to try a prediction."""

import json
from functools import partial
from pathlib import Path

from vertex_local import Json
from vertex_local.api.routes import Call, Message
from vertex_local.api.service import Service
from vertex_local.console import lists, words
from vertex_local.console.web import RESOURCE, View
from vertex_local.endpoints import deployments, forwarding, request_log
from vertex_local.errors import ApiError
from vertex_local.machine.files import local_path
from vertex_local.models import resource as models

EXAMPLES_FILE = "golden.json"  # {"instances": […]} beside a model
NUM_MINUTES = 5  # that the pages of endpoints are about
_readable = partial(json.dumps, ensure_ascii=False)


def table(service: Service, call: Call) -> Json:
    """Return a page of the endpoints."""
    page = lists.page(service, call, "endpoints")
    return {**page, "rows": [with_servers(service, record) for record in page["rows"]]}


def endpoint(service: Service, call: Call) -> Json:
    """Return what the page of an endpoint shows."""
    record, log = service.store.get(call.name("endpoints")), request_log.log_of(service)
    shown = with_servers(service, record)
    return {
        "endpoint": shown,
        "run": lists.run_of(service, record),
        "text": _example(service, shown["deployed"]),
        "logged_rate": request_log.sampling_rate(record),
        "logged_bytes": log.num_bytes(record["name"]),
        "num_dropped": log.num_dropped(record["name"]),
    }


def predict(service: Service, call: Call) -> Json:
    """Return the page of an endpoint with the response to the instance of its form."""
    text, result = call.query.get("instance", ""), {}
    try:
        body = json.dumps({"instances": [json.loads(text)]})
        request = Message(body.encode(), forwarding.JSON_FIELDS)
        response = forwarding.predict(service, call.name("endpoints"), request)
        result["response"] = _readable(json.loads(response.data), indent=2)
    except ApiError as error:
        result["error"] = error.message
    except ValueError as error:
        result["error"] = f"This is not JSON: {error}"
    return {**endpoint(service, call), "text": text, **result}


def with_servers(service: Service, record: Json, *, num_minutes: int = NUM_MINUTES) -> Json:
    """Return an endpoint with its `deployed` models: traffic, server and last requests of each."""
    split, name = record.get("trafficSplit", {}), record["name"]
    forwarder = service.running[forwarding.KEY]
    serving = [
        {
            **deployed,
            "percentage": split.get(deployed["id"], 0),
            **deployments.status(service, name, deployed["id"]),
            **forwarder.measured(name, deployed["id"], num_minutes=num_minutes),
        }
        for deployed in record.get("deployedModels", [])
    ]
    return {**record, "deployed": sorted(serving, key=lambda shown: -shown["percentage"])}


def _example(service: Service, shown: list[Json]) -> str:
    """Return the example beside the model with the most traffic as JSON, a column a line."""
    for deployed in shown[:1]:
        version = models.resolve(service, f"{deployed['model']}@{deployed['modelVersionId']}")
        path = (local_path(version.get("artifactUri", "")) or Path()) / EXAMPLES_FILE
        content = words.json_object(path.read_bytes()) if path.is_file() else None
        for instance in (content or {}).get("instances", [])[:1]:
            if not isinstance(instance, dict):
                return _readable(instance)
            columns = (f"  {_readable(key)}: {_readable(instance[key])}" for key in instance)
            return "{\n" + ",\n".join(columns) + "\n}"
    return ""


PAGE = f"/endpoints/{RESOURCE}"
VIEWS = [
    View(pattern="/endpoints", content=table, template="endpoints.html"),
    View(pattern=PAGE, content=endpoint, template="endpoint.html"),
    View(pattern=f"{PAGE}:predict", content=endpoint, template="endpoint.html"),  # reloaded
    View(pattern=f"{PAGE}:predict", content=predict, template="endpoint.html", method="POST"),
]
