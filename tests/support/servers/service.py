"""A real `vertex-local serve` on a free port, and the official SDK pointed at it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import requests
from google.auth.credentials import AnonymousCredentials

from tests.support.processes.forks import EVERYTHING, Fork, forks_with

# All that most services and their pipelines need: forks of a process with TensorFlow cost more.
IMPORTED = (
    "components.teardown.ending",
    "kfp.local",
    "kfp.dsl.executor_main",
    "vertex_local.server",
)
SERVE = [sys.executable, "-m", "vertex_local.cli", "serve"]
PRELOAD_KFP = ("--preload", "kfp.local,kfp.dsl.executor_main")
PARENT = "projects/demo/locations/us-central1"
START_TIMEOUT_SECONDS = 60
STOP_TIMEOUT_SECONDS = 60


@dataclass
class RunningService:
    """`vertex-local serve` as a process, and shorthands for requests to it."""

    root: Path
    arguments: tuple[str, ...] = ()
    parent: str = PARENT
    url: str = ""
    process: Fork | None = None
    session: requests.Session = field(default_factory=requests.Session)

    def start(self) -> None:
        self.process = forks_with(*self._imported()).start(
            ["python", *SERVE[1:], "--root", str(self.root), *self.arguments],
            log_path=self.root / "serve.log",
        )
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not self._is_announced():
            assert self.process.poll() is None, f"serve ended: {self.log()}"
            assert time.monotonic() < deadline, f"serve was not ready in time: {self.log()}"
            time.sleep(0.02)

    def _imported(self) -> tuple[str, ...]:
        """Return the modules of the process from which the service and its warm process fork."""
        stages = [words[1] for words in pairwise(self.arguments) if words[0] == "--preload"]
        preloaded = {name for modules in stages for name in modules.split(",")}
        return IMPORTED if preloaded <= set(IMPORTED) else EVERYTHING

    def _is_announced(self) -> bool:
        try:
            announced = json.loads((self.root / "server.json").read_text())
        except (FileNotFoundError, ValueError):
            return False
        self.url = announced["url"]
        return announced["pid"] == self.process.pid

    def log(self) -> str:
        return (self.root / "serve.log").read_text()[-5000:]

    def stop(self) -> int:
        """Send SIGTERM; return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"serve did not end within {STOP_TIMEOUT_SECONDS} s: {self.log()}")

    def kill(self) -> None:
        """Send SIGKILL, as the kernel does."""
        self.process.kill()
        self.process.wait(STOP_TIMEOUT_SECONDS)

    def call(self, method: str, path: str, body: Any = None, **arguments: Any) -> requests.Response:
        """Send a request to an absolute path, or to one below `/v1/PARENT/`."""
        url = f"{self.url}{path}" if path.startswith("/") else f"{self.url}/v1/{PARENT}/{path}"
        return self.session.request(method, url, json=body, timeout=60, **arguments)

    def wait_for(self, operation: dict[str, Any], *, timeout_seconds: float = 60) -> dict[str, Any]:
        """Poll an operation until it is done; return it."""
        deadline = time.monotonic() + timeout_seconds
        while not operation.get("done"):
            assert time.monotonic() < deadline, f"{operation['name']} was not done in time"
            time.sleep(0.05)
            operation = self.call("GET", f"/v1/{operation['name']}").json()
        return operation

    def do(self, method: str, path: str, body: Any = None, **arguments: Any) -> dict[str, Any]:
        """Send a request that must succeed, as must its operation; return the response."""
        response = self.call(method, path, body, **arguments)
        assert response.ok, response.text
        body = response.json()
        if "/operations/" not in body.get("name", ""):
            return body
        operation = self.wait_for(body)
        assert "error" not in operation, operation["error"]
        return operation["response"]


@contextmanager
def running_service(root: Path, *arguments: str) -> Iterator[RunningService]:
    """Serve `root` until the block ends; the exit code must be 0 unless the test killed it."""
    root.mkdir()
    running = RunningService(root=root, arguments=arguments)
    running.session.trust_env = False
    running.start()
    yield running
    running.session.close()
    assert running.stop() in (0, -signal.SIGKILL), running.log()


@pytest.fixture
def service(tmp_path):
    """Start a service for one test."""
    with running_service(tmp_path / "vertex") as running:
        yield running


@pytest.fixture(scope="module")
def shared_service(tmp_path_factory):
    """Start a service for the tests of a module; they must change nothing in it."""
    with running_service(tmp_path_factory.mktemp("shared") / "vertex") as running:
        yield running


def sdk_at(url: str) -> ModuleType:
    """Return the official SDK, pointed at a service that it asks often for the end of its work."""
    from google.api_core.future import polling
    from google.cloud import aiplatform
    from google.cloud.aiplatform import jobs, pipeline_jobs

    polling.DEFAULT_POLLING._initial, polling.DEFAULT_POLLING._maximum = 0.1, 0.1
    jobs._JOB_WAIT_TIME = pipeline_jobs._JOB_WAIT_TIME = 0.2

    aiplatform.init(
        project="demo",
        location="us-central1",
        api_endpoint=url,
        api_transport="rest",
        credentials=AnonymousCredentials(),
    )
    return aiplatform


@pytest.fixture
def aiplatform(service):
    """Return the official SDK, pointed at the service."""
    return sdk_at(service.url)


@pytest.fixture
def artifact_folder(tmp_path):
    """Write a folder like an exported model."""
    folder = tmp_path / "artifact"
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"model bytes")
    (folder / "variables" / "data").write_bytes(os.urandom(1000))
    return folder


SERVER_SCRIPT = Path(__file__).with_name("tiny_server.py")


def container_spec(*arguments: str) -> dict[str, Any]:
    """Return the container of a tiny prediction server."""
    return {
        "imageUri": "example.invalid/tiny",
        "command": ["python", str(SERVER_SCRIPT)],
        "args": list(arguments),
        "deploymentTimeout": "20s",
    }


@pytest.fixture
def upload(service, artifact_folder):
    """Upload a model that the tiny server serves; return the response."""

    def do(*arguments: str, **fields: Any) -> dict[str, Any]:
        model = {
            "displayName": "tiny",
            "artifactUri": str(artifact_folder),
            "containerSpec": container_spec(*arguments),
        }
        request = {k: fields.pop(k) for k in ("parentModel", "modelId") if k in fields}
        return service.do("POST", "models:upload", {**request, "model": {**model, **fields}})

    return do
