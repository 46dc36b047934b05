"""Forwarding of prediction requests to the servers of endpoints.

The HTTP server's loop sends them. A plain request needs no thread. Any other request, and one that
has to wait for a server or to be sent again, has a thread, which waits in `exchange`.
"""

import json
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from http import HTTPStatus

import orjson

from vertex_local import Json
from vertex_local.api.routes import Message
from vertex_local.api.service import Service
from vertex_local.endpoints import deployments, request_log, server_requests
from vertex_local.endpoints.deployed_model import ServingProcess
from vertex_local.endpoints.request_counts import RequestCounts
from vertex_local.endpoints.routing import RoutedModel, Routes
from vertex_local.endpoints.server_connections import LostError, ServerConnections
from vertex_local.endpoints.server_process import ServerProcess
from vertex_local.endpoints.server_requests import NotAnsweredError
from vertex_local.errors import ApiError, failed_precondition, of_exception
from vertex_local.http.channel import Channel
from vertex_local.http.server import MAX_PREDICTIONS, HttpServer

logger = logging.getLogger(__name__)

KEY = "forwarder"  # in Service.running
TIMEOUT_SECONDS = 60.0
LOOP_TIMEOUT_SECONDS = 10.0  # for the loop to notice a deadline
# Limited, because the request itself may make the servers end.
MAX_SENDS = 3
FIRST_PAUSE_SECONDS = 0.05
MAX_PAUSE_SECONDS = 1.0
JSON_FIELDS = {"Content-Type": "application/json"}
REQUEST_START = b'{"instances"'


class Forwarder:
    """Sends requests to prediction servers; `in_flight` counts the free places for them.

    It counts requests since its `start`, by `time.time`.
    """

    def __init__(self, service: Service, server: HttpServer) -> None:
        self._service = service
        self._server = server
        self._log = request_log.log_of(service)
        self._routes = Routes(service.store)
        self.in_flight = threading.BoundedSemaphore(MAX_PREDICTIONS)
        self.start = time.time()
        self._counts: dict[str, RequestCounts] = defaultdict(lambda: RequestCounts(self.start))

    def measured(self, name: str, deployed_id: str, *, num_minutes: int) -> Json:
        """Return what was counted of a deployed model (`RequestCounts.measured`)."""
        return self._counts[deployments.key_of(name, deployed_id)].measured(num_minutes)

    def forward(self, path: str, body: bytes, channel: Channel) -> bool:
        """Forward a plain request of a channel; return False if it needs a thread."""
        target = self._routes.choose(path) if body.startswith(REQUEST_START) else None
        process = self._service.running.get(target.key) if target else None
        if not (target and process) or self._service.closing.is_set():
            return False
        if not self.in_flight.acquire(blocking=False):
            return False
        server = process.begin()
        if server is None:
            self.in_flight.release()
            return False

        def finish(outcome: Message | ApiError) -> None:
            process.end()
            self.in_flight.release()
            _respond(channel, outcome, target=target)

        deadline = time.monotonic() + TIMEOUT_SECONDS
        self._send(Message(body, JSON_FIELDS), target, server, deadline=deadline, done=finish)
        return True

    def exchange(self, name: str, request: Message) -> tuple[RoutedModel, Message]:
        """Send a request to a model of the endpoint, chosen by its traffic split; wait.

        A request without a response, because its server ended or is being stopped, is retried with
        the traffic split at that time. Predictions change nothing, so a retry is safe.

        Raises:
            ApiError: FAILED_PRECONDITION if no model gets traffic, RESOURCE_EXHAUSTED at once if
                too many requests are in flight, UNAVAILABLE or DEADLINE_EXCEEDED.
        """
        if not self.in_flight.acquire(blocking=False):
            raise ApiError(
                "RESOURCE_EXHAUSTED",
                f"{MAX_PREDICTIONS} predictions are in flight, the maximum of this service; try "
                "again later.",
            )
        try:
            return self._exchange(name, request)
        finally:
            self.in_flight.release()

    def _exchange(self, name: str, request: Message) -> tuple[RoutedModel, Message]:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        pause_seconds, num_sends = FIRST_PAUSE_SECONDS, 0
        while True:
            target = self._choose(name)
            try:
                process = deployments.find(self._service, name, target.id)
                return target, self._ask(request, target, process, deadline=deadline)
            except NotAnsweredError as error:
                num_sends += error.was_sent
                if num_sends == MAX_SENDS or time.monotonic() + pause_seconds > deadline:
                    raise
                logger.info("Retrying a prediction of %s: %s", name, error.message)
            if self._service.closing.wait(pause_seconds):
                raise ApiError("UNAVAILABLE", "The service is shutting down.")
            pause_seconds = min(2 * pause_seconds, MAX_PAUSE_SECONDS)

    def _choose(self, name: str) -> RoutedModel:
        target = self._routes.choose(f"/v1/{name}:predict")
        if target is None:
            self._service.store.get(name)  # raises NOT_FOUND
            raise failed_precondition(
                f"{name} has no deployed model that gets traffic; deploy one first."
            )
        return target

    def _ask(
        self, request: Message, target: RoutedModel, process: ServingProcess, *, deadline: float
    ) -> Message:
        """Send a request once, when its server runs; wait for the response."""
        outcome: Future[Message | ApiError] = Future()
        done, began, is_sent = outcome.set_result, time.monotonic(), False
        try:
            with process.running(deadline) as server:
                is_sent = True
                self._server.call(
                    lambda: self._send(request, target, server, deadline=deadline, done=done)
                )
                # The loop ends the request at the deadline.
                response = outcome.result(deadline - time.monotonic() + LOOP_TIMEOUT_SECONDS)
        except ApiError as error:
            if not is_sent and not isinstance(error, NotAnsweredError):  # which is sent again
                self._server.call(lambda: self._count(target, began, is_error=True))
            raise
        if isinstance(response, ApiError):
            raise response
        return response

    def _count(self, target: RoutedModel, began: float, *, is_error: bool) -> None:
        self._counts[target.key].add(1000 * (time.monotonic() - began), is_error=is_error)

    def _send(
        self,
        request: Message,
        target: RoutedModel,
        server: ServerProcess,
        *,
        deadline: float,
        done: Callable[[Message | ApiError], None],
    ) -> None:
        """Send a request once, in the loop; log it and its response if it is in the sample."""
        arrived, began = time.time(), time.monotonic()

        def finish(outcome: Message | Exception) -> None:
            milliseconds = 1000 * (time.monotonic() - began)
            is_error = not isinstance(outcome, Message) or outcome.status != HTTPStatus.OK
            self._count(target, began, is_error=is_error)
            if isinstance(outcome, Message) and request_log.is_sampled(target.sampling_rate):
                logged = request_log.RequestRecord(
                    endpoint=target.endpoint,
                    deployed_model_id=target.id,
                    model_version_id=target.version_id,
                    arrived=arrived,
                    milliseconds=milliseconds,
                    status=outcome.status,
                    request=request.data,
                    response=outcome.data,
                )
                self._log.put(logged)
            try:
                done(_judge(outcome, server, seconds=deadline - began))
            except Exception:  # of any kind: it must not end the loop
                logger.exception("Unexpected error after a prediction")

        if server.connections is None:
            loop_map = self._server.loop_map
            server.connections = ServerConnections(loop_map, server.port, server.predict_route)
        server.connections.send(request, deadline=deadline, done=finish)


def predict(service: Service, name: str, request: Message) -> Message:
    """Return the predictions of a model of the endpoint (see `Forwarder.exchange`)."""
    target, response = service.running[KEY].exchange(name, request)
    data = predictions_of(response, target=target)
    return Message(data, {"Content-Type": "application/json; charset=utf-8"})


def predictions_of(response: Message, *, target: RoutedModel) -> bytes:
    """Return the body of a response to `:predict`: the server's predictions, and its model.

    Raises:
        ApiError: The error of the server, or INTERNAL for a body that is not predictions.
    """
    if response.status != HTTPStatus.OK:
        raise server_requests.error_of(response.status, response.data)
    predictions = server_requests.parse_predictions(response.data, title=target.title)
    body = {"predictions": predictions, **target.source}
    return orjson.dumps(body, option=orjson.OPT_APPEND_NEWLINE)


def _judge(
    outcome: Message | Exception, server: ServerProcess, *, seconds: float
) -> Message | ApiError:
    """Return a response, or the error for an outcome that is none; 503 may be sent again."""
    if isinstance(outcome, TimeoutError):
        return ApiError(
            "DEADLINE_EXCEEDED", f"{server.title} did not respond within {seconds:.0f} s."
        )
    if isinstance(outcome, LostError):
        message = f"{server.title} has ended or does not accept connections: {outcome}."
        return NotAnsweredError(message + server.last_words(), was_sent=outcome.was_sent)
    assert isinstance(outcome, Message)
    if outcome.status == HTTPStatus.SERVICE_UNAVAILABLE:
        return server_requests.error_of(outcome.status, outcome.data)
    return outcome


def _respond(channel: Channel, outcome: Message | ApiError, *, target: RoutedModel) -> None:
    """Respond to a plain request; give it a thread if it may be sent again."""
    try:
        if isinstance(outcome, ApiError):
            raise outcome
        channel.respond("200 OK", predictions_of(outcome, target=target))
    except NotAnsweredError:
        channel.decline()
    except Exception as exception:
        error = of_exception(exception)
        body = json.dumps(error.to_body(), ensure_ascii=False).encode() + b"\n"
        channel.respond(f"{error.code} {HTTPStatus(error.code).phrase.upper()}", body)
