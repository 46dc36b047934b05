"""The `trainyard` command and a client, both with the service of the test."""

from collections.abc import Callable
from pathlib import Path

import pytest

from components.shared.vertex.api import EMULATOR_VARIABLE, VertexApi, connect
from pipelines.cli import main
from pipelines.places.target import DEFAULT_LOCATION, LOCAL_PROJECT
from vertex_local.tests.support.service import RunningService


@pytest.fixture
def service(own_service: RunningService) -> RunningService:
    """Return a service of the test's own: commands use one project."""
    return own_service


@pytest.fixture
def api(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> VertexApi:
    """Return the client of this machine's project."""
    monkeypatch.setenv(EMULATOR_VARIABLE, service.url.removeprefix("http://"))
    return connect(LOCAL_PROJECT, DEFAULT_LOCATION)


@pytest.fixture
def trainyard(
    api: VertexApi,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., tuple[int, str, str]]:
    """Run a command; return its exit code, output and error output."""
    monkeypatch.setenv("TRAINYARD_DIR", str(tmp_path / "state"))

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        return (code, *capsys.readouterr())

    return run
