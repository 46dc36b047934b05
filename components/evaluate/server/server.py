"""Prediction server of a model as a child process, for the duration of a `with` block."""

import http.client
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from urllib.parse import urlsplit

import requests

from components.errors import StepError
from trainer.config.trust import STRANGER, Trust
from trainer.runtime.processes import end_with, process_context

HOST = "127.0.0.1"
HEALTH_ROUTE, PREDICT_ROUTE = "/health", "/predict"
START_TIMEOUT_SECONDS = 300.0
STOP_TIMEOUT_SECONDS = 10.0
REQUEST_TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.05


@contextmanager
def serving(model_dir: str, *, trust: Trust = STRANGER) -> Iterator[str]:
    """Serve a model for the duration of the block; yield the URL to POST to; see `started`."""
    with started(model_dir, trust=trust) as await_url:
        yield await_url()


@contextmanager
def started(model_dir: str, *, trust: Trust = STRANGER) -> Iterator[Callable[[], str]]:
    """Start `trainer.serve` on a free port of 127.0.0.1; yield a function that awaits its URL.

    The server is forked, so modules that this process has imported need not be imported again, but
    TensorFlow must not have run yet. It gets a socket that listens already, so no other server can
    take the port and answer instead. `trust` is in the model's author. The function raises
    StepError if the server exited, or was not healthy in time; its log lines come before.
    """
    listener = socket.create_server((HOST, 0))
    port = listener.getsockname()[1]
    environment = {
        "AIP_STORAGE_URI": model_dir,
        "AIP_HTTP_HOST": HOST,
        "AIP_HTTP_PORT": str(port),
        "AIP_HEALTH_ROUTE": HEALTH_ROUTE,
        "AIP_PREDICT_ROUTE": PREDICT_ROUTE,
    }
    process = process_context().Process(
        target=_serve, args=(trust.flags(), environment, listener, os.getpid())
    )
    with listener:  # only the child keeps it
        process.start()

    def await_url() -> str:
        _await_healthy(process, f"http://{HOST}:{port}{HEALTH_ROUTE}")
        return f"http://{HOST}:{port}{PREDICT_ROUTE}"

    try:
        yield await_url
    finally:
        _stop(process)


class TimedClient:
    """Client of a prediction server that measures its latency, on one connection.

    One that the server has closed is opened again by http.client.
    """

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._path = address.path
        self._connection = http.client.HTTPConnection(
            str(address.hostname), address.port, timeout=REQUEST_TIMEOUT_SECONDS
        )
        self.close = self._connection.close

    def ask(self, body: bytes) -> tuple[bytes, float]:
        """Return the response to a request, and its milliseconds.

        Raises:
            StepError: The server does not respond, or with an error.
        """
        began = time.perf_counter()
        try:
            self._connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            response = self._connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise StepError(f"no response: {error!r}") from error
        milliseconds = (time.perf_counter() - began) * 1000
        if response.status != http.HTTPStatus.OK:
            text = data.decode(errors="replace")[:200]
            raise StepError(f"the prediction server returned {response.status}: {text}")
        return data, milliseconds


def local_session() -> requests.Session:
    """Return a session for requests to this machine, without proxies."""
    session = requests.Session()
    session.trust_env = False
    return session


def _serve(
    flags: list[str], environment: dict[str, str], listener: socket.socket, parent: int
) -> None:
    end_with(parent)
    os.environ.update(environment)
    from trainer import serve

    sys.exit(serve.main(flags, listener=listener))


def _await_healthy(process: BaseProcess, url: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while not _is_healthy(url):
        if not process.is_alive():
            raise StepError(
                f"the prediction server exited with code {process.exitcode}; see its log above"
            )
        if time.monotonic() > deadline:
            raise StepError(
                f"the prediction server was not healthy within {START_TIMEOUT_SECONDS:.0f} s"
            )
        time.sleep(POLL_SECONDS)


def _is_healthy(url: str) -> bool:
    try:
        with local_session() as session:
            return session.get(url, timeout=STOP_TIMEOUT_SECONDS).ok
    except requests.RequestException:
        return False


def _stop(process: BaseProcess) -> None:
    process.terminate()
    process.join(STOP_TIMEOUT_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()
