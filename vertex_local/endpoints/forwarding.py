"""Forwarding of plain prediction requests, in the thread of the lane's event loop.

The JSON of requests and responses is not parsed. Whatever is not the usual case, such as a server
that is being restarted or a request without a response, is left to `predictions.py`.
"""

import json
import time
from http import HTTPStatus

from vertex_local.api.service import Service
from vertex_local.endpoints import predictions, request_log, server_requests
from vertex_local.endpoints.deployed_model import ServingProcess
from vertex_local.endpoints.routing import Routes, Target
from vertex_local.endpoints.server_connections import ServerConnections
from vertex_local.endpoints.server_process import ServerProcess
from vertex_local.errors import ApiError, deadline_exceeded, of_exception
from vertex_local.http.event_loop import EventLoop
from vertex_local.http.lane import Client

REQUEST_START = b'{"instances"'
RESPONSE_START = b'{"predictions"'
RESPONSE_END = b"]}"
OK = 200


class Forwarder:
    """Forwards requests to the prediction servers of endpoints."""

    def __init__(self, service: Service, loop: EventLoop) -> None:
        self._running = service.running
        self._closing = service.closing
        self._loop = loop
        self._routes = Routes(service.store)
        self._log = request_log.log_of(service)

    def forward(self, path: str, body: bytes, client: Client) -> bool:
        """Forward a request; return False if it is not the usual case."""
        route = self._routes.find(path)
        if route is None or not body.startswith(REQUEST_START) or self._closing.is_set():
            return False
        target = route.choose()
        process = self._running.get(target.key) if target else None
        if not (target and process) or not predictions.in_flight.begin():
            return False
        server = process.begin()
        if server is None:
            predictions.in_flight.end()
            return False
        log = self._log if request_log.is_sampled(route.sampling_rate) else None
        self._connections(server).send(Forwarding(body, client, target, process, log=log))
        return True

    def _connections(self, server: ServerProcess) -> ServerConnections:
        if server.connections is None:
            server.connections = ServerConnections(self._loop, server.port, server.predict_route)
        return server.connections


class Forwarding:
    """Request that is being forwarded."""

    __slots__ = ("_arrived", "_client", "_log", "_process", "_target", "body", "deadline")

    def __init__(
        self,
        body: bytes,
        client: Client,
        target: Target,
        process: ServingProcess,
        *,
        log: request_log.RequestLog | None,
    ) -> None:
        self.body = body
        self.deadline = client.loop.now + predictions.TIMEOUT_SECONDS
        self._client = client
        self._target = target
        self._process = process
        self._log = log
        self._arrived = time.time() if log else 0.0

    def answered(self, status: int, data: bytes) -> None:
        """Respond with the predictions, or with the server's error."""
        self._end()
        if self._log:
            self._record(self._log, status, data)
        try:
            if status != OK:
                raise server_requests.error_of(status, data)
            self._client.respond(splice(data, self._target.source) or self._compose(data))
        except server_requests.NotAnsweredError:
            self._client.decline()
        except Exception as error:
            self._fail(of_exception(error))

    def unanswered(self) -> None:
        """Let the request be sent again."""
        self._end()
        self._client.decline()

    def timed_out(self) -> None:
        """Respond with an error."""
        self._end()
        seconds = predictions.TIMEOUT_SECONDS
        self._fail(
            deadline_exceeded(f"{self._process.title} did not respond within {seconds:.0f} s.")
        )

    def _end(self) -> None:
        self._process.end()
        predictions.in_flight.end()

    def _compose(self, data: bytes) -> bytes:
        """Return the body of a response after strict parsing of the server's."""
        found = server_requests.parse_predictions(data, title=self._process.title)
        text = json.dumps(found["predictions"], ensure_ascii=False)
        return b'{"predictions": ' + text.encode() + self._target.source

    def _fail(self, error: ApiError) -> None:
        body = json.dumps(error.to_body(), ensure_ascii=False).encode() + b"\n"
        reason = HTTPStatus(error.code).phrase.upper()
        self._client.respond(body, f"{error.code} {reason}".encode())

    def _record(self, log: request_log.RequestLog, status: int, data: bytes) -> None:
        log.put(
            request_log.LoggedRequest(
                endpoint=self._target.endpoint,
                deployed_model_id=self._target.id,
                model_version_id=self._target.version_id,
                arrived=self._arrived,
                milliseconds=1000 * (time.time() - self._arrived),
                status=status,
                request=self.body,
                response=data,
            )
        )


def splice(data: bytes, source: bytes) -> bytes | None:
    """Return a prediction server's response with the fields of `source` at its end.

    Returns None for a response that may be something else than strict JSON with predictions.
    """
    if not data.endswith(RESPONSE_END):
        data = data.rstrip()
    is_plain = data.startswith(RESPONSE_START) and data.endswith(RESPONSE_END)
    # NaN, Infinity and half a surrogate pair are not strict JSON.
    if not is_plain or b"NaN" in data or b"Infinity" in data or b"\\u" in data:
        return None
    return data[:-1] + source
