"""A deployed model's process, run and asked by Vertex AI's contract for serving containers.

https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements
"""

import http.client
import json
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vertex_local import processes
from vertex_local.errors import (
    ApiError,
    deadline_exceeded,
    failed_precondition,
    internal,
    invalid_argument,
    unavailable,
)
from vertex_local.files import last_lines
from vertex_local.launch import Launch
from vertex_local.ports import POOL
from vertex_local.serving_spec import HOST, ServingSpec

logger = logging.getLogger(__name__)

Json = dict[str, Any]

HEALTH_TIMEOUT_SECONDS = 10.0
PREDICT_TIMEOUT_SECONDS = 60.0
MAX_MESSAGE_CHARACTERS = 4000


class ServingProcess:
    """One deployed model's process: started, healthy, asked, stopped."""

    def __init__(self, spec: ServingSpec, *, folder: Path, title: str, launch: Launch) -> None:
        self._spec = spec
        self._launch_options = launch
        self._folder = folder
        self._title = title
        self._group: processes.Group | None = None
        self._port = 0
        self._is_stopped = False
        self._lock = threading.Lock()
        self._is_healthy = threading.Event()

    @property
    def log_path(self) -> Path:
        """The log of the process: ROOT/endpoints/E/D.log."""
        return self._folder.with_name(f"{self._folder.name}.log")

    def start(self, *, interruption: Callable[[], ApiError | None]) -> None:
        """Starts the process and returns when it is healthy; if it fails, no process is left.

        `interruption` answers an error when there is no more point in waiting.

        Raises:
            ApiError: with the last lines of its log, if it ended or did not get healthy in time.
        """
        processes.await_end(self._folder, timeout_seconds=15)
        try:
            self._launch()
            self._await_healthy(interruption)
        except BaseException:
            self.stop()
            raise
        self._is_healthy.set()

    def stop(self) -> None:
        """Ends the process; returns when it is gone."""
        with self._lock:
            self._is_stopped = True
            group, port = self._group, self._port
        if group is not None:
            group.stop()
        if port:
            POOL.give_back([port])

    def predict(self, body: Json) -> Json:
        """Sends a request to the predict route and returns the answer.

        Raises:
            ApiError: UNAVAILABLE if the process is gone, or what the container answered.
        """
        deadline = time.monotonic() + PREDICT_TIMEOUT_SECONDS
        while not self._is_healthy.wait(0.1):  # it is starting again after the service's restart
            if self._is_stopped or time.monotonic() > deadline:
                raise unavailable(f"{self._title} is not serving.{self._last_words()}")
        try:
            seconds = max(1.0, deadline - time.monotonic())
            status, data = self._request("POST", self._spec.predict_route, body, timeout=seconds)
        except TimeoutError:
            raise deadline_exceeded(
                f"{self._title} did not answer within {PREDICT_TIMEOUT_SECONDS:.0f} s."
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._gone(error) from None
        if status != http.HTTPStatus.OK:
            raise _container_error(status, data)
        return self._answer(data)

    def _launch(self) -> None:
        with self._lock:
            if self._is_stopped:
                raise unavailable(f"{self._title} was stopped before it started.")
            self._port = self._port or POOL.take(1)[0]
            spec = self._spec.process_spec(port=self._port, log_path=self.log_path)
            self._folder.mkdir(parents=True, exist_ok=True)
            self._group = processes.start(
                self._folder, [spec], timeout_seconds=None, launch=self._launch_options
            )

    def _await_healthy(self, interruption: Callable[[], ApiError | None]) -> None:
        deadline = time.monotonic() + self._spec.timeout_seconds
        delay_seconds = 0.02
        while not self._answers_healthy():
            has_ended = self._has_ended()
            if error := interruption():  # perhaps that is why it has ended
                raise error
            if has_ended:
                raise failed_precondition(f"{self._title} ended too early.{self._last_words()}")
            if time.monotonic() > deadline:
                raise deadline_exceeded(
                    f"{self._title} was not healthy on {self._spec.health_route} within "
                    f"{self._spec.timeout_seconds:.0f} s.{self._last_words()}"
                )
            time.sleep(delay_seconds)
            delay_seconds = min(1.2 * delay_seconds, 0.5)

    def _answers_healthy(self) -> bool:
        try:
            status, _ = self._request(
                "GET", self._spec.health_route, None, timeout=HEALTH_TIMEOUT_SECONDS
            )
        except (OSError, http.client.HTTPException):
            return False
        return status == http.HTTPStatus.OK and not self._has_ended()

    def _has_ended(self) -> bool:
        return self._group is None or self._group.state()["state"] != "running"

    def _request(
        self, method: str, route: str, body: Json | None, *, timeout: float
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(HOST, self._port, timeout=timeout)
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, route, data, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _answer(self, data: bytes) -> Json:
        try:
            answer = json.loads(data, parse_constant=_refuse_constant)
        except ValueError as error:
            raise internal(f"{self._title} answered what is not JSON: {error}") from None
        if not isinstance(answer, dict) or "predictions" not in answer:
            raise internal(f'{self._title} answered without "predictions": {str(answer)[:200]}')
        return answer

    def _gone(self, error: Exception) -> ApiError:
        for _ in range(20):  # the supervisor reports an exit a moment after the connection broke
            if self._has_ended():
                break
            time.sleep(0.05)
        what = "has ended" if self._has_ended() else f"cannot be reached ({error})"
        return unavailable(f"{self._title} {what}.{self._last_words()}")

    def _last_words(self) -> str:
        message = self._group.state().get("message", "") if self._group else ""
        if "Last lines:" in message:
            return f" {message}"
        try:
            lines = last_lines(self.log_path)
        except OSError:
            lines = ""
        return f" {message}".rstrip() + (f" Last lines:\n{lines}" if lines else "")


def _container_error(status: int, data: bytes) -> ApiError:
    text = data.decode(errors="replace")
    try:
        answer = json.loads(text)
        error = answer.get("error", answer) if isinstance(answer, dict) else answer
        text = error.get("message", text) if isinstance(error, dict) else str(error)
    except ValueError:
        pass
    text = text.strip()[:MAX_MESSAGE_CHARACTERS] or "(no message)"
    if status == http.HTTPStatus.SERVICE_UNAVAILABLE:
        return unavailable(text)
    if 400 <= status < 500:  # noqa: PLR2004
        return invalid_argument(text)
    return internal(f"The prediction server answered {status}: {text}")


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")
