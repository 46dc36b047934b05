"""One process of a prediction server, from its start to its end."""

import http.client
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from vertex_local.endpoints import server_requests
from vertex_local.endpoints.server_connections import ServerConnections
from vertex_local.endpoints.serving_contract import DEFAULT_PORT, ServingSpec
from vertex_local.errors import ApiError, failed_precondition
from vertex_local.machine.files import last_lines
from vertex_local.machine.ports import LOOPBACK, POOL
from vertex_local.processes import group as processes
from vertex_local.processes.launch import Launch

logger = logging.getLogger(__name__)
Interruption = Callable[[], ApiError | None]

HEALTH_TIMEOUT_SECONDS = 10.0
PREVIOUS_END_TIMEOUT_SECONDS = 15.0


class ServerProcess:
    """A running process; `stop` must be called to release its port."""

    def __init__(self, spec: ServingSpec, *, folder: Path, title: str, launch: Launch) -> None:
        self.port = _port(spec, title)
        self._spec = spec
        self.title = title
        # ROOT/endpoints/E/D.log
        self._log_path = folder.with_name(f"{folder.name}.log")
        self._has_port = threading.Lock()
        self.connections: ServerConnections | None = None  # see `forwarding.py`
        process = spec.process_spec(port=self.port, log_path=self._log_path)
        try:
            self._group = processes.start(folder, [process], timeout_seconds=None, launch=launch)
        except BaseException:
            POOL.give_back([self.port])
            raise

    @property
    def predict_route(self) -> str:
        """Path of the prediction requests."""
        return self._spec.predict_route

    def await_healthy(self, interruption: Interruption) -> None:
        """Wait until the server is healthy.

        Raises:
            ApiError: The server ended or timed out, with the last lines of its log; or the error
                that `interruption` returned.
        """
        deadline = time.monotonic() + self._spec.timeout_seconds
        delay_seconds = 0.02
        while not self._is_healthy():
            has_ended = self._has_ended()
            if error := interruption():  # first: it may be the cause of the end
                raise error
            if has_ended:
                raise failed_precondition(
                    f"{self.title} ended before it was healthy.{self.last_words()}"
                )
            if time.monotonic() > deadline:
                raise ApiError(
                    "DEADLINE_EXCEEDED",
                    f"{self.title} was not healthy on http://{LOOPBACK}:{self.port}"
                    f"{self._spec.health_route} within {self._spec.timeout_seconds:.0f} s (it must "
                    f"listen on AIP_HTTP_PORT).{self.last_words()}",
                )
            time.sleep(delay_seconds)
            delay_seconds = min(1.2 * delay_seconds, 0.5)

    def await_end(self) -> float:
        """Wait for the end of the process; return the seconds that it took."""
        began = time.monotonic()
        self._group.wait()
        return time.monotonic() - began

    def stop(self) -> None:
        """End the process, if it runs, and release its port."""
        self._group.stop()
        if self._has_port.acquire(blocking=False):  # the first of several calls
            POOL.give_back([self.port])

    def last_words(self) -> str:
        """Return the cause of the process's end, if it has ended, and the last lines of its log."""
        message = str(self._group.state().get("message", ""))
        if "Last lines:" in message:
            return f" {message}"
        lines = last_lines(self._log_path)
        return f" {message}".rstrip() + (f" Last lines:\n{lines}" if lines else "")

    def _is_healthy(self) -> bool:
        try:
            status, _ = server_requests.exchange(
                "GET", self.port, self._spec.health_route, timeout_seconds=HEALTH_TIMEOUT_SECONDS
            )
        except (OSError, http.client.HTTPException):
            return False
        return status == http.HTTPStatus.OK and not self._has_ended()

    def _has_ended(self) -> bool:
        return bool(self._group.state()["state"] != "running")


def _port(spec: ServingSpec, title: str) -> int:
    """Reserve the port of this machine on which a server is reached.

    A new one for each start: another program may have taken the old one meanwhile. It is the
    model's port if a process can have it; 8080 is the port of many models, so it goes to none.
    """
    if spec.engine or spec.model_port == DEFAULT_PORT:
        return POOL.take(1)[0]
    port = POOL.take_or_other(spec.model_port)
    if port != spec.model_port:
        logger.warning(
            "%s: its port %d is in use; AIP_HTTP_PORT is %d", title, spec.model_port, port
        )
    return port
