"""A deployed model's process, run and asked by Vertex AI's contract for serving containers.

https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements
"""

import http.client
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

from vertex_local import prediction_server, processes
from vertex_local.errors import (
    ApiError,
    deadline_exceeded,
    failed_precondition,
    resource_exhausted,
    unavailable,
)
from vertex_local.files import last_lines, timestamp
from vertex_local.launch import Launch
from vertex_local.ports import POOL
from vertex_local.prediction_server import NotAnsweredError
from vertex_local.restarts import Backoff
from vertex_local.serving_spec import ServingSpec

logger = logging.getLogger(__name__)

Json = dict[str, Any]
Interruption = Callable[[], ApiError | None]

HEALTH_TIMEOUT_SECONDS = 10.0
DRAIN_TIMEOUT_SECONDS = 30.0
MAX_IN_FLIGHT = 64
# Starts in a row that fail before requests no longer wait for the next one.
CRASH_LOOP_FAILURES = 3


class State(StrEnum):
    """The states of a deployed model's process."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    CRASH_LOOP = "CRASH_LOOP"
    STOPPING = "STOPPING"


class ServingProcess:
    """A deployed model's process: kept running, asked for predictions, and drained at its end."""

    def __init__(
        self, make_spec: Callable[[], ServingSpec], *, folder: Path, title: str, launch: Launch
    ) -> None:
        self._make_spec = make_spec
        self._launch_options = launch
        self._folder = folder
        self._title = title
        self._spec: ServingSpec | None = None
        self._group: processes.Group | None = None
        self._port = 0
        self._state = State.STARTING
        self._in_flight = 0
        self._backoff = Backoff()
        self._failed_starts = 0
        self._restarts = 0
        self._restart_at = 0.0  # by time.time
        self._failure = ""
        self._changed = threading.Condition()  # guards all of the above
        self._stopping = threading.Event()

    @property
    def log_path(self) -> Path:
        """The log of the process: ROOT/endpoints/E/D.log."""
        return self._folder.with_name(f"{self._folder.name}.log")

    def start(self, *, interruption: Interruption) -> None:
        """Start the process and return when it is healthy; if it fails, no process is left.

        From then on it is restarted, with back-off, whenever it ends. `interruption` returns an
        error when waiting is no longer of use.

        Raises:
            ApiError: with the last lines of its log, if it ended or did not get healthy in time.
        """
        try:
            self._start_once(interruption)
        except BaseException:
            self.stop(drain_seconds=0)
            raise
        self.keep()

    def keep(self) -> None:
        """Keep the process running, in the background: start it whenever it does not run."""
        name = f"serving {self._folder.name}"
        threading.Thread(target=self._keep, name=name, daemon=True).start()

    def stop(self, *, drain_seconds: float = DRAIN_TIMEOUT_SECONDS) -> None:
        """Wait until the requests in flight are answered, and end the process.

        Requests that come meanwhile, or wait for a restart, are sent elsewhere.
        """
        self._stopping.set()
        with self._changed:
            self._state = State.STOPPING
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: not self._in_flight, drain_seconds):
                logger.warning(
                    "%s has not answered %d requests within %.0f s; it is ended",
                    self._title,
                    self._in_flight,
                    drain_seconds,
                )
            group = self._group
        if group is not None:
            group.stop()
        with self._changed:
            if self._port:
                POOL.give_back([self._port])
                self._port = 0

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
                found["restartTime"] = timestamp(self._restart_at)
        return found

    def predict(self, body: Json, *, deadline: float) -> Json:
        """Send a request to the predict route, while healthy, and return the response's body.

        Args:
            body: The request's.
            deadline: When to give up, by time.monotonic.

        Raises:
            NotAnsweredError: the process ended before it answered, or is ending.
            ApiError: RESOURCE_EXHAUSTED at once if too many requests are in flight, UNAVAILABLE in
                a crash loop, DEADLINE_EXCEEDED, or the error of the process's response.
        """
        with self._place():
            port, route = self._await_running(deadline)
            seconds = max(0.1, deadline - time.monotonic())
            try:
                status, data = prediction_server.exchange(
                    port, "POST", route, body, timeout_seconds=seconds
                )
            except TimeoutError:
                message = f"{self._title} did not answer within {seconds:.0f} s."
                raise deadline_exceeded(message) from None
            except (OSError, http.client.HTTPException) as error:
                was_sent = not isinstance(error, ConnectionRefusedError)
                message = f"{self._title} has ended, or does not listen: {error}."
                raise NotAnsweredError(message + self._last_words(), was_sent=was_sent) from None
        if status != http.HTTPStatus.OK:
            raise prediction_server.error_of(status, data)
        return prediction_server.parse_predictions(data, title=self._title)

    @contextmanager
    def _place(self) -> Iterator[None]:
        """One of the places for requests in flight."""
        with self._changed:
            if self._in_flight >= MAX_IN_FLIGHT:
                raise resource_exhausted(
                    f"{self._title} has {MAX_IN_FLIGHT} requests in flight, and takes no more at "
                    "a time; try again when some are answered."
                )
            self._in_flight += 1
        try:
            yield
        finally:
            with self._changed:
                self._in_flight -= 1
                self._changed.notify_all()

    def _await_running(self, deadline: float) -> tuple[int, str]:
        """Return the port and the predict route, as soon as the process is healthy."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._state in (State.RUNNING, State.STOPPING)
                    or self._failed_starts >= CRASH_LOOP_FAILURES
                ),
                deadline - time.monotonic(),
            )
            if self._state == State.STOPPING:
                raise NotAnsweredError(f"{self._title} is being stopped.", was_sent=False)
            if self._state != State.RUNNING or self._spec is None:
                raise unavailable(self._not_serving())
            return self._port, self._spec.predict_route

    def _not_serving(self) -> str:
        seconds = max(0.0, self._restart_at - time.time())
        plan = f"the next restart is in {seconds:.0f} s" if seconds else "it is being restarted"
        if self._failed_starts >= CRASH_LOOP_FAILURES:
            plan = f"{self._failed_starts} starts in a row have failed; {plan}"
        return f"{self._title} is not serving; {plan}. {self._failure}".rstrip()

    def _keep(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._state != State.RUNNING:
                    self._start_once(self._stopped)
                healthy_seconds = self._await_end()
                failure = f"{self._title} has ended.{self._last_words()}"
                delay_seconds = self._plan_restart(failure, healthy_seconds=healthy_seconds)
            except Exception as error:
                delay_seconds = self._plan_restart(str(error), healthy_seconds=None)
            self._stopping.wait(delay_seconds)

    def _stopped(self) -> ApiError | None:
        return unavailable(f"{self._title} was stopped.") if self._stopping.is_set() else None

    def _start_once(self, interruption: Interruption) -> None:
        processes.await_end(self._folder, timeout_seconds=15)
        spec = self._make_spec()
        group = self._launch(spec)
        try:
            self._await_healthy(spec, group, interruption)
        except BaseException:
            group.stop()
            raise
        with self._changed:
            if not self._stopping.is_set():
                self._state = State.RUNNING
                self._failed_starts = 0
                self._changed.notify_all()

    def _await_end(self) -> float:
        """Wait for the process's end; return how long it had run."""
        began = time.monotonic()
        assert self._group is not None
        self._group.wait()
        return time.monotonic() - began

    def _plan_restart(self, failure: str, *, healthy_seconds: float | None) -> float:
        """Return the delay in seconds; `healthy_seconds` is None where the start failed."""
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
        logger.warning("%s It is restarted in %.1f s", failure, delay_seconds)
        return delay_seconds

    def _launch(self, spec: ServingSpec) -> processes.Group:
        with self._changed:
            if error := self._stopped():
                raise error
            # A new port: while nothing listened on the old one, another program may have taken it.
            old, self._port = self._port, POOL.take(1)[0]
            if old:
                POOL.give_back([old])
            self._folder.mkdir(parents=True, exist_ok=True)
            process = spec.process_spec(port=self._port, log_path=self.log_path)
            self._spec = spec
            self._restarts += bool(self._failure)
            self._group = processes.start(
                self._folder, [process], timeout_seconds=None, launch=self._launch_options
            )
            return self._group

    def _await_healthy(
        self, spec: ServingSpec, group: processes.Group, interruption: Interruption
    ) -> None:
        deadline = time.monotonic() + spec.timeout_seconds
        delay_seconds = 0.02
        while not self._answers_healthy(spec, group):
            has_ended = _has_ended(group)
            if error := interruption():  # perhaps that is why it has ended
                raise error
            if has_ended:
                raise failed_precondition(f"{self._title} ended too early.{self._last_words()}")
            if time.monotonic() > deadline:
                raise deadline_exceeded(
                    f"{self._title} was not healthy on {spec.health_route} within "
                    f"{spec.timeout_seconds:.0f} s.{self._last_words()}"
                )
            time.sleep(delay_seconds)
            delay_seconds = min(1.2 * delay_seconds, 0.5)

    def _answers_healthy(self, spec: ServingSpec, group: processes.Group) -> bool:
        try:
            status, _ = prediction_server.exchange(
                self._port, "GET", spec.health_route, timeout_seconds=HEALTH_TIMEOUT_SECONDS
            )
        except (OSError, http.client.HTTPException):
            return False
        return status == http.HTTPStatus.OK and not _has_ended(group)

    def _last_words(self) -> str:
        message = self._group.state().get("message", "") if self._group else ""
        if "Last lines:" in message:
            return f" {message}"
        lines = last_lines(self.log_path)
        return f" {message}".rstrip() + (f" Last lines:\n{lines}" if lines else "")


def _has_ended(group: processes.Group) -> bool:
    return bool(group.state()["state"] != "running")
