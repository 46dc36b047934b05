"""Prediction server of a deployed model, by Vertex AI's contract for serving containers.

https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from vertex_local import Json
from vertex_local.endpoints.server_process import (
    PREVIOUS_END_TIMEOUT_SECONDS,
    Interruption,
    ServerProcess,
)
from vertex_local.endpoints.server_requests import NotAnsweredError
from vertex_local.endpoints.serving_contract import ServingSpec
from vertex_local.errors import ApiError, of_exception
from vertex_local.machine.clock import timestamp
from vertex_local.processes import group as processes
from vertex_local.processes.launch import Launch
from vertex_local.processes.restarts import Backoff

logger = logging.getLogger(__name__)

DRAIN_TIMEOUT_SECONDS = 30.0
MAX_IN_FLIGHT = 64
# After so many failed starts in a row, requests fail at once instead of waiting for a restart.
CRASH_LOOP_FAILURES = 3


class State(StrEnum):
    """The states of a deployed model's process."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    CRASH_LOOP = "CRASH_LOOP"
    STOPPING = "STOPPING"


class ServingProcess:
    """Prediction server of a deployed model: restarted when it ends, drained when stopped."""

    def __init__(
        self, make_spec: Callable[[], ServingSpec], *, folder: Path, title: str, launch: Launch
    ) -> None:
        self._make_spec = make_spec
        self._launch = launch
        self._folder = folder
        self.title = title
        self._server: ServerProcess | None = None
        self._state = State.STARTING
        self._in_flight = 0
        self._backoff = Backoff()
        self._failed_starts = 0
        self._restarts = 0
        self._restart_at = 0.0  # by time.time
        self._failure = ""
        self._lock = threading.RLock()  # guards all of the above
        self._changed = threading.Condition(self._lock)
        self._stopping = threading.Event()

    def start(self, *, interruption: Interruption) -> None:
        """Start the process and return when it is healthy; stop it if that fails.

        It is then restarted, with back-off, whenever it ends. `interruption` returns an error to
        stop waiting.

        Raises:
            ApiError: The process ended or timed out; with the last lines of its log.
        """
        try:
            server = self._start_once(interruption)
        except BaseException:
            self.stop(drain_seconds=0)
            raise
        self.keep(server)

    def keep(self, server: ServerProcess | None = None) -> None:
        """Start the process in the background whenever it does not run."""
        name = f"serving {self._folder.name}"
        threading.Thread(target=self._keep, args=(server,), name=name, daemon=True).start()

    def stop(self, *, drain_seconds: float = DRAIN_TIMEOUT_SECONDS) -> None:
        """Wait for the requests in flight, then end the process.

        New requests, and those that wait for a restart, raise NotAnsweredError.
        """
        self._stopping.set()
        with self._changed:
            self._state = State.STOPPING
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: not self._in_flight, drain_seconds):
                logger.warning(
                    "%s: %d requests in flight have no response after %g s; ending the process",
                    self.title,
                    self._in_flight,
                    drain_seconds,
                )
            server = self._server
        if server is not None:
            server.stop()

    def status(self) -> Json:
        """Return the state, the requests in flight, the restarts, and the last failure."""
        with self._changed:
            found: Json = {
                "state": self._state.value,
                "requestsInFlight": self._in_flight,
                "restarts": self._restarts,
            }
            if self._failure:
                found["message"] = self._failure
            if self._state in (State.RESTARTING, State.CRASH_LOOP):
                found["restartTime"] = timestamp(self._restart_at, timespec="milliseconds")
        return found

    @contextmanager
    def running(self, deadline: float) -> Iterator[ServerProcess]:
        """Count a request in flight for the block; yield the process once it is healthy.

        Raises:
            NotAnsweredError: The process is being stopped.
            ApiError: RESOURCE_EXHAUSTED at once if too many requests are in flight, UNAVAILABLE in
                a crash loop or at the deadline, by time.monotonic.
        """
        with self._changed:
            if self._in_flight >= MAX_IN_FLIGHT:
                raise ApiError(
                    "RESOURCE_EXHAUSTED",
                    f"{self.title} has {MAX_IN_FLIGHT} requests in flight, the maximum; try again "
                    "later.",
                )
            self._in_flight += 1
        try:
            yield self._await_running(deadline)
        finally:
            self.end()

    def begin(self) -> ServerProcess | None:
        """Count a request in flight, to be ended by `end`; return the running process.

        Returns None, and counts nothing, if the process does not run or has too many requests.
        """
        if self._state is not State.RUNNING:  # without the lock, which a start holds for long
            return None
        with self._lock:
            if self._state is not State.RUNNING or self._in_flight >= MAX_IN_FLIGHT:
                return None
            self._in_flight += 1
            return self._server

    def end(self) -> None:
        """End a request in flight."""
        with self._lock:
            self._in_flight -= 1
            if self._state is State.STOPPING:
                self._changed.notify_all()

    def _await_running(self, deadline: float) -> ServerProcess:
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._state in (State.RUNNING, State.STOPPING)
                    or self._failed_starts >= CRASH_LOOP_FAILURES
                ),
                deadline - time.monotonic(),
            )
            if self._state == State.STOPPING:
                raise NotAnsweredError(f"{self.title} is being stopped.", was_sent=False)
            if self._state != State.RUNNING or self._server is None:
                raise ApiError("UNAVAILABLE", self._not_serving())
            return self._server

    def _not_serving(self) -> str:
        seconds = max(0.0, self._restart_at - time.time())
        plan = f"the next restart is in {seconds:.0f} s" if seconds else "it is being restarted"
        if self._failed_starts >= CRASH_LOOP_FAILURES:
            plan = f"{self._failed_starts} starts in a row have failed; {plan}"
        return f"{self.title} is not serving; {plan}. {self._failure}".rstrip()

    def _keep(self, server: ServerProcess | None) -> None:
        while not self._stopping.is_set():
            try:
                server = server or self._start_once(self._stopped)
                healthy_seconds = server.await_end()
                failure = f"{self.title} has ended.{server.last_words()}"
                server.stop()
                delay_seconds = self._plan_restart(failure, healthy_seconds=healthy_seconds)
            except Exception as error:
                failure = of_exception(error).message
                delay_seconds = self._plan_restart(failure, healthy_seconds=None)
            server = None
            self._stopping.wait(delay_seconds)

    def _stopped(self) -> ApiError | None:
        return (
            ApiError("UNAVAILABLE", f"{self.title} was stopped.")
            if self._stopping.is_set()
            else None
        )

    def _start_once(self, interruption: Interruption) -> ServerProcess:
        processes.await_end(self._folder, timeout_seconds=PREVIOUS_END_TIMEOUT_SECONDS)
        spec = self._make_spec()
        with self._changed:
            if error := self._stopped():
                raise error
            self._restarts += bool(self._failure)
            server = self._server = ServerProcess(
                spec, folder=self._folder, title=self.title, launch=self._launch
            )
        try:
            server.await_healthy(interruption)
        except BaseException:
            server.stop()
            raise
        with self._changed:
            if not self._stopping.is_set():
                self._state = State.RUNNING
                self._failed_starts = 0
                self._changed.notify_all()
        return server

    def _plan_restart(self, failure: str, *, healthy_seconds: float | None) -> float:
        """Return the delay in seconds; `healthy_seconds` is None if the start failed."""
        with self._changed:
            if self._stopping.is_set():
                return 0.0
            if healthy_seconds is None:
                self._failed_starts += 1
            delay_seconds = self._backoff.next_delay(healthy_seconds=healthy_seconds or 0.0)
            is_loop = self._backoff.failures >= CRASH_LOOP_FAILURES
            self._state = State.CRASH_LOOP if is_loop else State.RESTARTING
            self._failure = failure
            self._restart_at = time.time() + delay_seconds
            self._changed.notify_all()
        logger.warning("%s Restarting in %.1f s", failure, delay_seconds)
        return delay_seconds
