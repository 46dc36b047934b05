"""Predictions of endpoints, with retries on the models deployed at the time."""

import json
import logging
import threading
import time
from http import HTTPStatus

from vertex_local import Json
from vertex_local.api.routes import Message
from vertex_local.api.service import Service
from vertex_local.endpoints import deployments, request_log, server_requests, traffic
from vertex_local.endpoints.deployed_model import ServingProcess
from vertex_local.endpoints.server_requests import NotAnsweredError
from vertex_local.errors import failed_precondition, resource_exhausted, unavailable
from vertex_local.http.server import MAX_PREDICTIONS

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 60.0
# Limited, because the request itself may make the servers end.
MAX_SENDS = 3
FIRST_PAUSE_SECONDS = 0.05
MAX_PAUSE_SECONDS = 1.0


class Limit:
    """Count of requests with a maximum."""

    def __init__(self, maximum: int) -> None:
        self._free = maximum
        self._lock = threading.Lock()

    def begin(self) -> bool:
        """Count a request, to be ended by `end`; return False at the maximum."""
        with self._lock:
            if not self._free:
                return False
            self._free -= 1
            return True

    def end(self) -> None:
        """End a request."""
        with self._lock:
            self._free += 1


in_flight = Limit(MAX_PREDICTIONS)


def predict(service: Service, name: str, body: Json) -> Json:
    """Return the predictions of a model of the endpoint, chosen by its traffic split.

    A request without a response, because its server ended or is being stopped, is retried with
    the traffic split at that time. Predictions change nothing, so a retry is safe.

    Raises:
        ApiError: FAILED_PRECONDITION if no model gets traffic, RESOURCE_EXHAUSTED at once if too
            many requests are in flight, or the error of the deployed model.
    """
    request = Message(json.dumps(body).encode(), {"Content-Type": "application/json"})
    deployed, title, response = exchange(service, name, request)
    if response.status != HTTPStatus.OK:
        raise server_requests.error_of(response.status, response.data)
    found = server_requests.parse_predictions(response.data, title=title)
    return {"predictions": found["predictions"], **source_of(deployed)}


def exchange(service: Service, name: str, request: Message) -> tuple[Json, str, Message]:
    """Send a request to a model of the endpoint, with retries (see `predict`).

    Returns:
        The deployed model, its title for messages, and the response of its server.
    """
    if not in_flight.begin():
        raise resource_exhausted(
            f"{MAX_PREDICTIONS} predictions are in flight, the maximum of this service; try again "
            "later."
        )
    try:
        return _exchange(service, name, request)
    finally:
        in_flight.end()


def _exchange(service: Service, name: str, request: Message) -> tuple[Json, str, Message]:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    pause_seconds, num_sends = FIRST_PAUSE_SECONDS, 0
    while True:
        endpoint = service.store.get(name)
        deployed = _choose(endpoint)
        try:
            process = deployments.find(service, name, deployed["id"])
            response = _send(service, endpoint, deployed, process, request, deadline=deadline)
        except NotAnsweredError as error:
            num_sends += error.was_sent
            if num_sends == MAX_SENDS or time.monotonic() + pause_seconds > deadline:
                raise
            logger.info("Retrying a prediction of %s: %s", name, error.message)
        else:
            return deployed, process.title, response
        if service.closing.wait(pause_seconds):
            raise unavailable("The service is shutting down.")
        pause_seconds = min(2 * pause_seconds, MAX_PAUSE_SECONDS)


def _send(
    service: Service,
    endpoint: Json,
    deployed: Json,
    process: ServingProcess,
    request: Message,
    *,
    deadline: float,
) -> Message:
    """Send a request once; log it and its response if it is in the sample."""
    arrived, began = time.time(), time.monotonic()
    response = process.send(request, deadline=deadline)
    if request_log.is_sampled(request_log.sampling_rate(endpoint)):
        request_log.log_of(service).put(
            request_log.LoggedRequest(
                endpoint=endpoint["name"],
                deployed_model_id=deployed["id"],
                model_version_id=deployed["modelVersionId"],
                arrived=arrived,
                milliseconds=1000 * (time.monotonic() - began),
                status=response.status,
                request=request.data,
                response=response.data,
            )
        )
    if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
        raise server_requests.error_of(response.status, response.data)
    return response


def source_of(deployed: Json) -> Json:
    """Return the fields of a response that tell which model made the predictions."""
    return {
        "deployedModelId": deployed["id"],
        "model": deployed["model"],
        "modelVersionId": deployed["modelVersionId"],
        "modelDisplayName": deployed["displayName"],
    }


def _choose(endpoint: Json) -> Json:
    deployed_id = traffic.choose(endpoint.get("trafficSplit", {}))
    for deployed in endpoint.get("deployedModels", []):
        if deployed["id"] == deployed_id:
            return dict(deployed)
    raise failed_precondition(
        f"{endpoint['name']} has no deployed model that gets traffic; deploy one first."
    )
