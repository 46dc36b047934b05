"""A service for tests: `with running() as service:`, or the pytest fixture `vertex_service`."""

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from vertex_local import Json, client
from vertex_local.machine.ports import POOL

PARENT = "projects/demo/locations/us-central1"
REQUEST_TIMEOUT_SECONDS = 60
START_TIMEOUT_SECONDS = 60
STOP_TIMEOUT_SECONDS = 60


Launch = Callable[[Sequence[str], Path], Any]  # returns what has the methods of Popen


def launch(command: Sequence[str], log_path: Path) -> "subprocess.Popen[bytes]":
    """Start a command whose output is appended to a file."""
    with log_path.open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


@dataclass
class RunningService:
    """`vertex-local serve` as a process of its own, and shorthands for requests to it.

    `root` is its folder, which exists; `parent` the prefix of the resources in `call` and `do`.
    """

    root: Path
    options: Sequence[str] = ()
    launch: Launch = launch
    parent: str = PARENT
    url: str = ""
    process: Any = field(init=False)
    session: requests.Session = field(default_factory=requests.Session)

    @property
    def host(self) -> str:
        """`127.0.0.1:PORT`, the value of VERTEX_EMULATOR_HOST."""
        return self.url.removeprefix("http://")

    @property
    def sdk_options(self) -> Json:
        """Arguments for `aiplatform.init` of Google's SDK."""
        from google.auth.credentials import AnonymousCredentials
        from google.oauth2.credentials import Credentials

        token = client.token_of(self.root)
        _, project, _, location = self.parent.split("/")
        return {
            "project": project,
            "location": location,
            "api_endpoint": self.url,
            "api_transport": "rest",
            "credentials": Credentials(token) if token else AnonymousCredentials(),
        }

    def start(self) -> None:
        """Start the service and wait until it accepts requests."""
        if "--port" not in self.options:  # not the default one, which others expect and could take
            self.options = [*self.options, "--port", str(POOL.take(1)[0])]
        self.session.trust_env = False  # a proxy of the environment must not see loopback requests
        command = [*client.SERVE, "--root", str(self.root), *self.options]
        self.process = self.launch(command, self.root / "serve.log")
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while (record := client.announced(self.root)).get("pid") != self.process.pid:
            assert self.process.poll() is None, f"serve ended: {self.log()}"
            assert time.monotonic() < deadline, f"serve was not ready in time: {self.log()}"
            time.sleep(0.02)
        self.url = record["url"]
        self.session.headers.update(client.authorization(client.token_of(self.root)))

    def log(self) -> str:
        """Return the service's log."""
        return (self.root / "serve.log").read_text()

    def stop(self) -> int:
        """Send SIGTERM; return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return int(self.process.wait(STOP_TIMEOUT_SECONDS))
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"serve did not end within {STOP_TIMEOUT_SECONDS} s: {self.log()}"
            ) from None

    def kill(self) -> None:
        """Send SIGKILL, as the kernel does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(STOP_TIMEOUT_SECONDS)

    def reset(self) -> None:
        """Remove every resource: start again at the same address, with an empty folder."""
        self.stop()
        shutil.rmtree(self.root)
        self.root.mkdir()
        self.start()

    def call(self, method: str, path: str, body: Any = None, **arguments: Any) -> requests.Response:
        """Send a request to an absolute path, or to one below `/v1/PARENT/`."""
        url = self.url + (path if path.startswith("/") else f"/v1/{self.parent}/{path}")
        arguments = {"timeout": REQUEST_TIMEOUT_SECONDS, **arguments}
        return self.session.request(method, url, json=body, **arguments)

    def wait_for(self, operation: Json, *, timeout_seconds: float = 60) -> Json:
        """Poll an operation until it is done; return it."""
        deadline = time.monotonic() + timeout_seconds
        while not operation.get("done"):
            assert time.monotonic() < deadline, f"{operation['name']} was not done in time"
            time.sleep(0.05)
            operation = self.call("GET", f"/v1/{operation['name']}").json()
        return operation

    def do(self, method: str, path: str, body: Any = None, **arguments: Any) -> Json:
        """Send a request that must succeed, as must its operation; return the response."""
        response = self.call(method, path, body, **arguments)
        assert response.ok, response.text
        content: Json = response.json()
        if "/operations/" not in content.get("name", ""):
            return content
        operation = self.wait_for(content)
        assert "error" not in operation, operation["error"]
        outcome: Json = operation["response"]
        return outcome


@contextmanager
def running(
    *options: str, root: Path | None = None, launch: Launch = launch
) -> Iterator[RunningService]:
    """Serve until the block ends: an empty folder that is removed, or the folder `root`.

    The exit code of the service must be 0, unless it was killed.
    """
    if root is None:
        with (
            tempfile.TemporaryDirectory(prefix="vertex-local-", ignore_cleanup_errors=True) as made,
            running(*options, root=Path(made), launch=launch) as service,
        ):
            yield service
        return
    service = RunningService(root, options, launch)
    root.mkdir(parents=True, exist_ok=True)
    service.start()
    try:
        yield service
    finally:
        service.session.close()
        code = service.stop()
    assert code in (0, -signal.SIGKILL), service.log()


with suppress(ImportError):  # `running` needs no pytest
    import pytest

    @pytest.fixture
    def vertex_service() -> Iterator[RunningService]:
        """Start a service for one test."""
        with running() as service:
            yield service
