"""Long-running operations: each runs in a thread; its state and result are stored."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from vertex_local import Json
from vertex_local.api import ends
from vertex_local.api.pages import list_page
from vertex_local.api.routes import Call, Route
from vertex_local.api.service import Service
from vertex_local.errors import failed_precondition, invalid_argument, of_exception, rpc_status
from vertex_local.machine.clock import now, timestamp

# Called with an event that is set when the operation is to be cancelled; returns the response.
Work = Callable[[threading.Event], Json]

TYPE_PREFIX = "type.googleapis.com/google.cloud.aiplatform.v1."
EMPTY_TYPE = "type.googleapis.com/google.protobuf.Empty"
SHORT_SECONDS = 0.5  # an operation that ends sooner is returned as done, without a poll
MAX_WAIT_SECONDS = 30.0
DAYS_KEPT = 7
DELETABLE = """
SELECT name FROM resources JOIN listed USING (position)
WHERE kind = 'operations' AND done = 'true' AND (update_time < ? OR
substr(name, 1, instr(name, '/operations/') - 1) NOT IN (SELECT name FROM resources))
"""


def start(
    service: Service, resource: str, method: str, work: Work, *, metadata: Json | None = None
) -> Json:
    """Start `work` as an operation of a resource; return the operation, often already done.

    An ApiError of `work` becomes its error. Its types are named by the method, `UploadModel`.
    """
    operation = _new(service, resource, method, {"done": False}, metadata)
    name = operation["name"]
    cancelled = threading.Event()
    service.running[name] = cancelled

    def run() -> None:
        try:
            outcome: Json = {"response": _response(work(cancelled), f"{method}Response")}
        except Exception as error:
            outcome = {"error": of_exception(error).to_rpc_status()}
        _finish(service, name, outcome)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    thread.join(SHORT_SECONDS)
    return service.store.get(name)


def finished(
    service: Service, resource: str, method: str, response: Json, *, response_type: str
) -> Json:
    """Store and return an operation for work that is already done."""
    outcome = {"done": True, "response": _response(response, response_type)}
    return _new(service, resource, method, outcome)


def deleted(service: Service, resource: str) -> Json:
    """Store and return the operation of a deletion that is done."""
    return finished(service, resource, "Delete", {}, response_type="")


def get(service: Service, call: Call) -> Json:
    """GET …/operations/ID: return an operation."""
    return service.store.get(_name(call))


def list_operations(service: Service, call: Call) -> Json:
    """GET …/operations: list the operations of a resource, or of all in a location."""
    parent = _resource(call) if "resource" in call.args else f"{call.parent}/*"
    return list_page(service, call, "operations", parent=parent)


def wait(service: Service, call: Call) -> Json:
    """POST …:wait: return the operation once it is done, or after `timeout`."""
    seconds = _seconds(str(call.body.get("timeout") or call.query.get("timeout") or "30s"))
    deadline = time.monotonic() + min(seconds, MAX_WAIT_SECONDS)
    operation = service.store.get(_name(call))
    while not operation.get("done") and time.monotonic() < deadline:
        if service.closing.wait(0.05):
            break
        operation = service.store.get(operation["name"])
    return operation


def cancel(service: Service, call: Call) -> Json:
    """POST …:cancel: request cancellation; as on Vertex AI, some work cannot be cancelled."""
    operation = service.store.get(_name(call))
    cancelled = service.running.get(operation["name"])
    if isinstance(cancelled, threading.Event):
        cancelled.set()
    return {}


def delete(service: Service, call: Call) -> Json:
    """DELETE …/operations/ID: delete an operation that is done."""
    operation = service.store.get(_name(call))
    if not operation.get("done"):
        raise failed_precondition(f"{operation['name']} is not done; cancel it or wait for it.")
    service.store.delete(operation["name"])
    return {}


def recover(service: Service) -> None:
    """Mark the unfinished operations of a previous service as failed."""
    error = rpc_status("ABORTED", "interrupted: the service stopped")
    for operation in service.store.unfinished("operations"):
        _finish(service, operation["name"], {"error": error})


def close(service: Service) -> None:
    """Delete the operations that are done, if they are old or their resources are deleted."""
    oldest = timestamp(datetime.now(UTC) - timedelta(days=DAYS_KEPT), timespec="microseconds")
    with service.store.atomic() as connection:
        for (name,) in connection.execute(DELETABLE, (oldest,)).fetchall():
            service.store.delete(name)


def _new(
    service: Service, resource: str, method: str, outcome: Json, metadata: Json | None = None
) -> Json:
    started = now()
    operation: Json = {
        "name": f"{resource}/operations/{service.store.next_id()}",
        "metadata": {
            "@type": f"{TYPE_PREFIX}{method}OperationMetadata",
            "genericMetadata": {"createTime": started, "updateTime": started},
            **(metadata or {}),
        },
        **outcome,
    }
    service.store.insert(operation["name"], operation)
    return operation


def _response(response: Json, response_type: str) -> Json:
    return {"@type": TYPE_PREFIX + response_type if response_type else EMPTY_TYPE, **response}


def _finish(service: Service, name: str, outcome: Json) -> None:
    def change(operation: Json) -> None:
        operation.update(outcome, done=True)
        operation["metadata"]["genericMetadata"]["updateTime"] = now()

    service.running.pop(name, None)
    ends.settle(service, name, lambda: service.store.update(name, change))


def _resource(call: Call) -> str:
    if "resource" in call.args:
        return f"{call.parent}/{call.args['kind']}/{call.args['resource']}"
    return call.parent


def _name(call: Call) -> str:
    return f"{_resource(call)}/operations/{call.args['id']}"


def _seconds(duration: str) -> float:
    try:
        return max(0.0, float(duration.removesuffix("s")))
    except ValueError:
        message = f'timeout "{duration}" is not a duration; write seconds, such as "10s".'
        raise invalid_argument(message) from None


HANDLERS: list[tuple[str, str, Any]] = [
    ("GET", "/<id>", get),
    ("DELETE", "/<id>", delete),
    ("POST", "/<id>:wait", wait),
    ("POST", "/<id>:cancel", cancel),
    ("GET", "", list_operations),
]
# The SDK polls operations on its first binding of GetOperation, which is below /ui.
ROUTES = [
    Route(method, f"{base}projects/<project>/locations/<location>{parent}/operations{path}", do)
    for base in ("", "/ui/")
    for parent in ("", "/<kind>/<resource>")
    for method, path, do in HANDLERS
]
