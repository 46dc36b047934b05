"""Routes of the prediction server."""

import json
import logging
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache

from trainer.errors import InstanceError
from trainer.serving.http import metrics
from trainer.serving.http.batching import Batcher, PredictionJob
from trainer.serving.http.bodies import parse_instances
from trainer.serving.http.limits import ServerConfig, ServerLimits
from trainer.serving.http.messages import (
    Request,
    RequestError,
    Response,
    error_response,
    json_response,
)

logger = logging.getLogger(__name__)

METRICS_ROUTE, LIVENESS_ROUTE = "/metrics", "/livez"
# Parsed JSON takes 2 (small integers) to 24 times (small objects) the memory of its text.
_JSON_WEIGHT = 8
_LOOPBACK = "127.0.0.1"
_LOOPBACK_HEADER = re.compile(r"(127\.0\.0\.1|localhost)(:[0-9]+)?")

Respond = Callable[[Response], None]


class PredictionApp:
    """Application of the prediction server.

    Until the model is loaded, `batcher` is None and predictions get 503.
    """

    def __init__(self, config: ServerConfig, limits: ServerLimits):
        self.metrics = metrics.Metrics()
        self.batcher: Batcher | None = None
        self.is_draining = False
        self._limits, self._predict_route = limits, config.predict_route
        self._is_loopback, self._has_log = config.host == _LOOPBACK, config.access_log == "json"
        self._routes: dict[str, tuple[str, Callable[[], Response]]] = {
            LIVENESS_ROUTE: ("GET", lambda: json_response({"status": "alive"})),
            METRICS_ROUTE: ("GET", self._metrics),
            config.health_route: ("GET", self._health),
        }

    def handle(self, request: Request, respond: Respond) -> None:
        """Respond to a request; to a prediction request once its batch is predicted."""

        def finish(response: Response) -> None:
            self._record(request, response)
            respond(response)

        try:
            if self._is_loopback:
                _reject_web_pages(request)
            if request.path == self._predict_route:
                _check_method(request, "POST")
                self._predict(request, finish)
                return
            if request.path not in self._routes:
                routes = f"{self._predict_route} or {' or '.join(self._routes)}"
                raise RequestError(404, f"there is no route {request.path}; use {routes}")
            method, handler = self._routes[request.path]
            _check_method(request, method)
            finish(handler())
        except Exception as error:
            finish(_response_to(error))

    def _health(self) -> Response:
        if self.is_draining:
            raise RequestError(503, "shutting down")
        self._require_ready()
        return json_response({"status": "ready"})

    def _metrics(self) -> Response:
        gauges = {
            "serving_ready": ("1 once the model is loaded.", float(self.batcher is not None)),
            "serving_queued_requests": (
                "Requests that wait for the model.",
                self.batcher.num_queued if self.batcher else 0,
            ),
        }
        body = self.metrics.text(gauges).encode()
        return Response(body=body, content_type=metrics.CONTENT_TYPE)

    def _predict(self, request: Request, finish: Respond) -> None:
        if request.num_body_bytes > self._limits.body_bytes:
            raise RequestError(
                413,
                f"the body has {request.num_body_bytes} bytes; the limit is "
                f"{self._limits.body_bytes}, which AIP_MAX_BODY_BYTES of the server sets",
            )
        batcher = self._require_ready()
        content = parse_instances(request.body)
        num_bytes = _JSON_WEIGHT * len(request.body)
        request.body = b""

        def deliver(job: PredictionJob) -> None:
            response = job.result if job.error is None else _response_to(job.error)
            response.num_instances = len(content.instances)
            self.metrics.seconds.observe(time.monotonic() - request.began)
            finish(response)

        batcher.submit(
            PredictionJob(
                request=request,
                signature=content.signature,
                content=content,
                num_instances=len(content.instances),
                num_bytes=num_bytes,
                deliver=deliver,
            )
        )

    def _require_ready(self) -> Batcher:
        if self.batcher is None:
            raise RequestError(503, "the model is loading; try again later")
        return self.batcher

    def _record(self, request: Request, response: Response) -> None:
        is_known = request.path == self._predict_route or request.path in self._routes
        self.metrics.count(request.path if is_known else "", response.status)
        if self._has_log:
            line = {
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "method": request.method,
                "path": request.path,
                "status": response.status,
                "milliseconds": round(1000 * (time.monotonic() - request.began), 3),
                "request_bytes": request.num_body_bytes,
                "response_bytes": len(response.body),
                "instances": response.num_instances,
            }
            _write_line(json.dumps(line))


def _check_method(request: Request, method: str) -> None:
    if request.method != method and (request.method, method) != ("HEAD", "GET"):
        raise RequestError(405, f"{request.path} accepts {method}, not {request.method}")


def _reject_web_pages(request: Request) -> None:
    """Raise 403 for a web page's request, which has another origin or its own host name.

    Only for a server on the loopback address: other servers may have any host name.
    """
    host, origin = request.header("host"), request.header("origin")
    if not _LOOPBACK_HEADER.fullmatch(host):
        raise RequestError(403, f'host "{host}" is not allowed; use 127.0.0.1 or localhost')
    if origin not in ("", f"http://{host}"):
        raise RequestError(403, f'requests from web pages of "{origin}" are not allowed')


def _response_to(error: Exception) -> Response:
    if isinstance(error, InstanceError):
        error = RequestError(400, str(error))
    if not isinstance(error, RequestError):
        logger.error("unexpected error in a request", exc_info=error)
        error = RequestError(500, "internal error; see the server's log")
    return error_response(error)


def _write_line(line: str) -> None:
    """Write a line of the access log; without it the request gets its response all the same."""
    try:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except OSError as error:
        _warn_once(f"cannot write the access log, lines are lost: {error.strerror}")


@cache
def _warn_once(message: str) -> None:
    logger.warning(message)
