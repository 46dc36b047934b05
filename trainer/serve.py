"""The prediction server, under Vertex AI's serving contract: `python -m trainer.serve`."""

import argparse
import json
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Request, Response

from trainer import paths
from trainer.cluster.liveness import end_process
from trainer.config.flags import read_environ
from trainer.config.settings import setting
from trainer.errors import TrainerError
from trainer.runtime.tensorflow_logs import import_tensorflow
from trainer.serving import strict_json
from trainer.serving.draining import DrainingServer

logger = logging.getLogger(__name__)

# Vertex AI's limit for a prediction request.
MAX_BODY_BYTES = 1_500_000
_NUM_THREADS = 8
_DRAIN_SECONDS = 20.0
_MAX_PORT = 65535
_MAX_CONNECTIONS = 500
_LOOPBACK = "127.0.0.1"
_LOOPBACK_HEADER = re.compile(r"(127\.0\.0\.1|localhost)(:[0-9]+)?")

_EPILOG = """\
environment (set by Vertex AI; to run it by hand, the first is enough):
  AIP_STORAGE_URI      folder of the exported model: a path, file:// or gs://; a SavedModel from
                       another program takes requests in TensorFlow Serving's row format
  AIP_HTTP_PORT        default 8080
  AIP_HTTP_HOST        default 0.0.0.0; 127.0.0.1 serves this machine only, and rejects web pages
  AIP_HEALTH_ROUTE     default /health: 503 until the model is loaded, then 200
  AIP_PREDICT_ROUTE    default /predict: takes {"instances": [...]}, returns {"predictions": [...]}

example:
  AIP_STORAGE_URI=run1/model AIP_HTTP_HOST=127.0.0.1 python -m trainer.serve"""


class RequestError(Exception):
    """A request that fails: HTTP status and message."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """Settings of the prediction server, from the environment."""

    storage_uri: str = setting("folder of the exported model", variable="AIP_STORAGE_URI")
    host: str = setting("address to listen on", default="0.0.0.0", variable="AIP_HTTP_HOST")
    port: int = setting(
        "port to listen on", default=8080, at_least=1, at_most=_MAX_PORT, variable="AIP_HTTP_PORT"
    )
    health_route: str = setting(
        "path of the health check",
        default="/health",
        pattern="/.*",
        form="a path that starts with /",
        variable="AIP_HEALTH_ROUTE",
    )
    predict_route: str = setting(
        "path of predictions",
        default="/predict",
        pattern="/.*",
        form="a path that starts with /",
        variable="AIP_PREDICT_ROUTE",
    )


def parse_environ(environ: Mapping[str, str]) -> ServerConfig:
    """Return the configuration that the AIP_* variables give; ConfigError names a wrong one."""
    config = ServerConfig(**read_environ(ServerConfig, environ))
    return replace(config, storage_uri=paths.uri(config.storage_uri).rstrip("/"))


class PredictionApp:
    """The WSGI application; `predictor` is None until the model is loaded."""

    def __init__(self, config: ServerConfig):
        self._routes: dict[str, tuple[str, Callable[[Request], Any]]] = {
            config.health_route: ("GET", self._health),
            config.predict_route: ("POST", self._predict),
        }
        self._is_loopback = config.host == _LOOPBACK
        self.predictor: Any = None
        self.is_draining = False

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Handle one request; every response is JSON."""
        try:
            status, body = 200, self._handle(Request(environ))
        except RequestError as error:
            status, body = error.status, {"error": str(error)}
        except HTTPException as error:
            status, body = error.code or 400, {"error": error.description}
        except Exception:
            logger.exception("unexpected error in a request")
            status, body = 500, {"error": "internal error; see the server's log"}
        response = Response(json.dumps(body), status=status, mimetype="application/json")
        return response(environ, start_response)

    def _handle(self, request: Request) -> Any:
        if self._is_loopback:
            _reject_web_pages(request)
        if request.path not in self._routes:
            raise RequestError(
                404, f"there is no route {request.path}; use {' or '.join(self._routes)}"
            )
        method, handler = self._routes[request.path]
        if request.method != method:
            raise RequestError(405, f"{request.path} accepts {method}, not {request.method}")
        return handler(request)

    def _health(self, request: Request) -> dict[str, str]:
        del request
        if self.is_draining:
            raise RequestError(503, "shutting down")
        self._require_ready()
        return {"status": "ready"}

    def _predict(self, request: Request) -> dict[str, Any]:
        if (request.content_length or 0) > MAX_BODY_BYTES:
            raise RequestError(
                413,
                f"the body has {request.content_length} bytes; the limit is {MAX_BODY_BYTES}",
            )
        self._require_ready()
        from trainer.serving.export import InstanceError

        instances = parse_instances(request.get_data())
        try:
            return {"predictions": self.predictor.predict(instances)}
        except InstanceError as error:
            raise RequestError(400, str(error)) from error

    def _require_ready(self) -> None:
        if self.predictor is None:
            raise RequestError(503, "the model is loading; try again later")


def _reject_web_pages(request: Request) -> None:
    """Raise 403 for a web page's request, which has another origin or its own host name.

    Only for a server on the loopback address: other servers may have any host name.
    """
    host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
    if not _LOOPBACK_HEADER.fullmatch(host):
        raise RequestError(403, f'host "{host}" is not allowed; use 127.0.0.1 or localhost')
    if origin not in (None, f"http://{host}"):
        raise RequestError(403, f'requests from web pages of "{origin}" are not allowed')


def parse_instances(body: bytes) -> list[Any]:
    """Return the instances of a request's body; RequestError if it is invalid."""
    try:
        content = strict_json.parse(body)
    except ValueError as error:
        raise RequestError(400, f"the body is not JSON: {error}") from error
    instances = content.get("instances") if isinstance(content, dict) else None
    if instances is None and isinstance(content, dict) and "inputs" in content:
        raise RequestError(
            400,
            'the key "inputs" (a request in columns) is not supported; send {"instances": [...]} '
            "with one instance for each prediction",
        )
    if not isinstance(instances, list) or not instances:
        raise RequestError(400, 'the body must be {"instances": [...]} with one instance or more')
    return instances


def load_ready_predictor(storage_uri: str) -> Any:
    """Return the predictor of a model after a first prediction, which is slow."""
    import_tensorflow()

    from trainer.serving.export import is_foreign, load_predictor
    from trainer.serving.signature import SignaturePredictor

    load = SignaturePredictor if is_foreign(storage_uri) else load_predictor
    predictor = load(storage_uri)
    predictor.warm_up()
    return predictor


def serve(config: ServerConfig) -> int:
    """Serve until SIGTERM; return the exit code."""
    app = PredictionApp(config)
    try:
        server = DrainingServer(
            app,
            host=config.host,
            port=config.port,
            threads=_NUM_THREADS,
            connection_limit=_MAX_CONNECTIONS,
            asyncore_use_poll=True,
            # Ten times the limit: up to this size the app rejects bodies, with a reason.
            max_request_body_size=10 * MAX_BODY_BYTES,
            ident=None,
        )
    except OSError as error:
        logger.error("cannot serve at %s:%d: %s", config.host, config.port, error.strerror)
        return 1
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: _in_background(_drain, server, app))
    _in_background(_load, app, config.storage_uri)
    logger.info("listening at %s:%d", config.host, config.port)
    server.run()
    return 0


def _load(app: PredictionApp, storage_uri: str) -> None:
    began = time.monotonic()
    try:
        app.predictor = load_ready_predictor(storage_uri)
    except TrainerError as error:
        logger.error("%s", error)
        end_process(1)
    except Exception:
        logger.exception("cannot load the model from %s", storage_uri)
        end_process(1)
    logger.info("ready after %.1f s", time.monotonic() - began)


def _drain(server: DrainingServer, app: PredictionApp) -> None:
    """Complete all requests, accept no new ones, and exit."""
    app.is_draining = True
    server.drain(timeout_seconds=_DRAIN_SECONDS)
    logger.info("stopped")
    end_process(0)


def _in_background(function: Callable[..., None], *args: Any) -> None:
    threading.Thread(target=function, args=args, daemon=True).start()


def main(argv: Sequence[str] | None = None) -> int:
    """Serve the model that the environment names; return the exit code."""
    argparse.ArgumentParser(
        prog="python -m trainer.serve",
        description="Serve an exported model over HTTP, under Vertex AI's container contract.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="serve %(message)s", force=True)
    logging.getLogger("waitress").setLevel(logging.ERROR)
    try:
        config = parse_environ(os.environ)
    except ValueError as error:
        sys.stderr.write(f"python -m trainer.serve: error: {error}\n")
        return 2
    return serve(config)


if __name__ == "__main__":
    end_process(main())
