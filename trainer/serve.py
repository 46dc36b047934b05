"""The prediction server, under Vertex AI's serving contract: `python -m trainer.serve`."""

import argparse
import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from trainer.cluster.liveness import end_process
from trainer.config.trust import STRANGER, Trust, add_trust_flags, trust_of
from trainer.errors import TrainerError
from trainer.runtime.tensorflow_logs import import_tensorflow
from trainer.serving.http.application import PredictionApp
from trainer.serving.http.batching import Batcher
from trainer.serving.http.bodies import predict_requests
from trainer.serving.http.limits import ServerConfig, ServerLimits, parse_environ
from trainer.serving.http.server import Server

logger = logging.getLogger(__name__)

_DRAIN_SECONDS = 20.0

_EPILOG = """\
environment (set by Vertex AI; to run it by hand, the first is enough):
  AIP_STORAGE_URI      folder of the exported model: a path, file:// or gs://; a SavedModel from
                       another program takes requests in TensorFlow Serving's row format
  AIP_HTTP_PORT        default 8080
  AIP_HTTP_HOST        default 0.0.0.0; 127.0.0.1 serves this machine only, and rejects web pages
  AIP_HEALTH_ROUTE     default /health: 503 until the model is loaded, then 200
  AIP_PREDICT_ROUTE    default /predict: takes {"instances": [...]}, returns {"predictions": [...]}
  AIP_ACCESS_LOG       default off; json writes a line for each request to stdout
  AIP_MAX_BODY_BYTES   default 1500000, Vertex AI's limit; a larger body gets 413

other routes: /livez (200 while the process works), /metrics (Prometheus)

example:
  AIP_STORAGE_URI=run1/model AIP_HTTP_HOST=127.0.0.1 python -m trainer.serve"""


def load_ready_predictor(storage_uri: str, *, trust: Trust = STRANGER) -> Any:
    """Return the predictor of a model after a first prediction, which is slow."""
    import_tensorflow()

    from trainer.serving.signature import load_any

    predictor = load_any(storage_uri, trust=trust)
    predictor.warm_up()
    return predictor


async def serve(config: ServerConfig, listener: socket.socket, *, trust: Trust = STRANGER) -> None:
    """Serve until SIGTERM or SIGINT, then complete all requests."""
    limits = ServerLimits(body_bytes=config.max_body_bytes, read_bytes=10 * config.max_body_bytes)
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    app = PredictionApp(config, limits)
    server = Server(app, limits)

    def start(predictor: Any) -> None:
        app.batcher = Batcher(
            partial(predict_requests, predictor),
            limits=limits,
            on_batch=app.metrics.batches.observe,
        )

    def load() -> None:
        predictor = _load(config.storage_uri, trust)
        loop.call_soon_threadsafe(start, predictor)

    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stopped.set)
    threading.Thread(target=load, daemon=True).start()
    await server.listen(listener)
    logger.info("listening at %s:%d", config.host, config.port)
    await stopped.wait()
    app.is_draining = True
    await server.drain(timeout_seconds=_DRAIN_SECONDS)
    logger.info("stopped")


def _load(storage_uri: str, trust: Trust) -> Any:
    """Return the predictor; end the process if it cannot be loaded."""
    began = time.monotonic()
    try:
        predictor = load_ready_predictor(storage_uri, trust=trust)
    except TrainerError as error:
        logger.error("%s", error)
        end_process(1)
    except Exception:
        logger.exception("cannot load the model from %s", storage_uri)
        end_process(1)
    gc.collect()
    gc.freeze()  # a collection of what TensorFlow has allocated would delay requests
    logger.info("ready after %.1f s", time.monotonic() - began)
    return predictor


def main(argv: Sequence[str] | None = None, *, listener: socket.socket | None = None) -> int:
    """Serve the model that the environment names; return the exit code.

    A given `listener` listens already at the host and port that the environment names.
    """
    parser = argparse.ArgumentParser(
        prog="python -m trainer.serve",
        description="Serve an exported model over HTTP, under Vertex AI's container contract.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_trust_flags(parser)
    trust = trust_of(parser.parse_args(argv))
    logging.basicConfig(level=logging.INFO, format="serve %(message)s", force=True)
    try:
        config = parse_environ(os.environ)
    except ValueError as error:
        sys.stderr.write(f"python -m trainer.serve: error: {error}\n")
        return 2
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        listener = listener or socket.create_server((config.host, config.port), family=family)
    except OSError as error:
        logger.error("cannot serve at %s:%d: %s", config.host, config.port, error.strerror)
        return 1
    asyncio.run(serve(config, listener, trust=trust))
    end_process(0)
    return 0


if __name__ == "__main__":
    end_process(main())
