"""Pages of endpoints: traffic, rate, latency and errors, and a form to try a prediction."""

import json
import time
from pathlib import Path

from vertex_local import Json
from vertex_local.api.routes import Call, Message
from vertex_local.api.service import Service
from vertex_local.console import lists, words
from vertex_local.console.web import RESOURCE, View
from vertex_local.endpoints import deployments, forwarding, request_log
from vertex_local.errors import ApiError, invalid_argument
from vertex_local.machine.files import local_path
from vertex_local.models import resource as models

EXAMPLES_FILE = "golden.json"  # {"instances": […]} beside a model
WINDOW_SECONDS = 300.0
EXAMPLE_ROWS = (4, 24)


def table(service: Service, call: Call) -> Json:
    """Return the rows of the endpoints."""
    return lists.page(service, call, "endpoints", lambda one: _shown(service, one))


def endpoint(service: Service, call: Call) -> Json:
    """Return what the page of an endpoint shows."""
    return _page(service, call, text="", response="")


def predict(service: Service, call: Call) -> Json:
    """Return the page of an endpoint with the response to the instance of its form."""
    text = call.query.get("instance", "")
    try:
        response = _predict(service, call.name("endpoints"), text)
    except ApiError as error:
        return _page(service, call, text=text, error=error.message)
    return _page(service, call, text=text, response=response)


def _predict(service: Service, name: str, text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise invalid_argument(f"The instance is not JSON: {error}") from None
    is_body = isinstance(value, dict) and "instances" in value
    body = value if is_body else {"instances": [value]}
    request = Message(json.dumps(body).encode(), forwarding.JSON_FIELDS)
    return json.dumps(json.loads(forwarding.predict(service, name, request).data), indent=2)


def _page(service: Service, call: Call, *, text: str, response: str = "", error: str = "") -> Json:
    record = service.store.get(call.name("endpoints"))
    shown = _shown(service, record)
    text = text or _example(service, record)
    log = request_log.log_of(service)
    least, most = EXAMPLE_ROWS
    return {
        "endpoint": shown,
        "text": text,
        "num_rows": min(max(text.count("\n") + 1, least), most),
        "response": response,
        "error": error,
        "logged_rate": request_log.sampling_rate(record),
        "logged_bytes": log.num_bytes(record["name"]),
        "num_dropped": log.num_dropped(record["name"]),
        "window": WINDOW_SECONDS,
    }


def _shown(service: Service, record: Json) -> Json:
    split = record.get("trafficSplit", {})
    return {
        "name": record["name"],
        "title": record.get("displayName") or words.id_of(record["name"]),
        "created": record["createTime"],
        "labels": lists.own_labels(record),
        "deployed": [
            {
                "id": one["id"],
                "title": f"{one.get('displayName', '')}@{one['modelVersionId']}",
                "model": one["model"],
                "percentage": split.get(one["id"], 0),
                **{"restarts": 0, "message": "", "requestsInFlight": 0},
                **deployments.status(service, record["name"], one["id"]),
                **_measured(service, record["name"], one["id"]),
            }
            for one in record.get("deployedModels", [])
        ],
    }


def _measured(service: Service, name: str, deployed_id: str) -> Json:
    """Return rate, latency and errors of the last minutes; these are not kept over a restart."""
    forwarder = service.running.get(forwarding.KEY)
    sent = forwarder.measured(name, deployed_id) if forwarder else []
    since = time.time() - WINDOW_SECONDS
    recent = [one for one in sent if one.time >= since]
    times = sorted(one.milliseconds for one in recent)
    seconds = max(time.time() - recent[0].time, 1.0) if recent else WINDOW_SECONDS
    return {
        "num_requests": len(recent),
        "rate": len(recent) / seconds,
        "median_ms": times[len(times) // 2] if times else None,
        "p99_ms": times[int(len(times) * 0.99)] if times else None,
        "num_errors": sum(one.is_error for one in recent),
    }


def _example(service: Service, record: Json) -> str:
    """Return an instance for the model with the most traffic, "" if it has none beside it."""
    split = record.get("trafficSplit", {})
    deployed = sorted(record.get("deployedModels", []), key=lambda one: -split.get(one["id"], 0))
    for one in deployed:
        version = models.resolve(service, f"{one['model']}@{one['modelVersionId']}")
        folder = local_path(version.get("artifactUri", "")) or Path()
        try:
            content = json.loads((folder / EXAMPLES_FILE).read_bytes())
            return _written(content["instances"][0])
        except (OSError, ValueError, KeyError, IndexError, TypeError):
            continue
    return ""


def _written(instance: object) -> str:
    """Return an instance as JSON, a column a line."""
    if not isinstance(instance, dict):
        return json.dumps(instance)
    columns = (f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in instance.items())
    return "{\n" + ",\n".join(columns) + "\n}"


VIEWS = [
    View(pattern="/endpoints", content=table, template="endpoints.html"),
    View(pattern=f"/endpoints/{RESOURCE}", content=endpoint, template="endpoint.html"),
    View(
        pattern=f"/endpoints/{RESOURCE}:predict",
        content=predict,
        template="endpoint.html",
        method="POST",
    ),
]
