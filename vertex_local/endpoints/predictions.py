"""Predictions of endpoints, with retries on the models deployed at the time."""

import logging
import threading
import time

from vertex_local.api.service import Service
from vertex_local.endpoints import deployments, traffic
from vertex_local.endpoints.server_requests import NotAnsweredError
from vertex_local.errors import failed_precondition, resource_exhausted, unavailable
from vertex_local.http.server import MAX_PREDICTIONS
from vertex_local.json_types import Json

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 60.0
# Limited, because the request itself may make the servers end.
MAX_SENDS = 3
FIRST_PAUSE_SECONDS = 0.05
MAX_PAUSE_SECONDS = 1.0

_IN_FLIGHT = threading.BoundedSemaphore(MAX_PREDICTIONS)


def predict(service: Service, name: str, body: Json) -> Json:
    """Return the predictions of a model of the endpoint, chosen by its traffic split.

    A request without a response, because its server ended or is being stopped, is retried with
    the traffic split at that time. Predictions change nothing, so a retry is safe.

    Raises:
        ApiError: FAILED_PRECONDITION if no model gets traffic, RESOURCE_EXHAUSTED at once if too
            many requests are in flight, or the error of the deployed model.
    """
    if not _IN_FLIGHT.acquire(blocking=False):
        raise resource_exhausted(
            f"{MAX_PREDICTIONS} predictions are in flight, the maximum of this service; try again "
            "later."
        )
    try:
        return _predict(service, name, body)
    finally:
        _IN_FLIGHT.release()


def _predict(service: Service, name: str, body: Json) -> Json:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    pause_seconds, num_sends = FIRST_PAUSE_SECONDS, 0
    while True:
        deployed = _choose(service.store.get(name))
        try:
            process = deployments.find(service, name, deployed["id"])
            response = process.predict(body, deadline=deadline)
        except NotAnsweredError as error:
            num_sends += error.was_sent
            if num_sends == MAX_SENDS or time.monotonic() + pause_seconds > deadline:
                raise
            logger.info("Retrying a prediction of %s: %s", name, error.message)
        else:
            return {
                "predictions": response["predictions"],
                "deployedModelId": deployed["id"],
                "model": deployed["model"],
                "modelVersionId": deployed["modelVersionId"],
                "modelDisplayName": deployed["displayName"],
            }
        if service.closing.wait(pause_seconds):
            raise unavailable("The service is shutting down.")
        pause_seconds = min(2 * pause_seconds, MAX_PAUSE_SECONDS)


def _choose(endpoint: Json) -> Json:
    deployed_id = traffic.choose(endpoint.get("trafficSplit", {}))
    for deployed in endpoint.get("deployedModels", []):
        if deployed["id"] == deployed_id:
            return dict(deployed)
    raise failed_precondition(
        f"{endpoint['name']} has no deployed model that gets traffic; deploy one first."
    )
