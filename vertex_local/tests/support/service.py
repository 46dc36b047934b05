"""A real `vertex-local serve` on a free port, and the official SDK pointed at it."""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.oauth2.credentials import Credentials

from vertex_local import client, testing
from vertex_local.testing import PARENT, RunningService
from vertex_local.tests.support.faulty_service import command_with_faults
from vertex_local.tests.support.forks import Fork, forks_with
from vertex_local.tests.support.platform import TOKEN

# Modules of a process that forks services and their pipelines: the first set that has them all.
FORKED = [("kfp.local", "kfp.dsl.executor_main", "vertex_local.server")]
HEADERS = client.authorization(TOKEN)
CREDENTIALS = Credentials(TOKEN) if TOKEN else AnonymousCredentials()
SERVE = list(client.SERVE)
PRELOAD_KFP = ("--preload", "kfp.local,kfp.dsl.executor_main")
PROJECT_AND_LOCATION = {"project": "demo", "location": "us-central1"}
SERVER_SCRIPT = Path(__file__).with_name("tiny_server.py")
__all__ = ["PARENT", "RunningService"]


def launch_fork(command: Sequence[str], log_path: Path) -> Fork:
    """Start a service as a fork of a process that has imported its modules."""
    stages = [words[1] for words in pairwise(command) if words[0] == "--preload"]
    preloaded = {name for modules in stages for name in modules.split(",")}
    modules = next((m for m in FORKED if preloaded <= set(m)), (*FORKED[0], *sorted(preloaded)))
    return forks_with(*modules).start(
        ["python", *command_with_faults(command)[1:]], log_path=log_path
    )


def give_token(root: Path) -> None:
    """Write the token of tests, if a service on `root` will require one."""
    if TOKEN:
        root.mkdir(parents=True, exist_ok=True)
        (root / client.TOKEN_FILE).touch(mode=0o600)
        (root / client.TOKEN_FILE).write_text(TOKEN)


def running_service(root: Path, *options: str) -> AbstractContextManager[RunningService]:
    """Serve `root` until the block ends; the exit code must be 0 unless the test killed it."""
    give_token(root)
    return testing.running(*options, root=root, launch=launch_fork)


@pytest.fixture
def service(tmp_path) -> Iterator[RunningService]:
    """Start a service for one test."""
    with running_service(tmp_path / "vertex") as running:
        yield running


@pytest.fixture(scope="module")
def shared_service(tmp_path_factory) -> Iterator[RunningService]:
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

    options = RunningService(Path(), url=url).sdk_options
    aiplatform.init(**{**options, "credentials": CREDENTIALS})
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


def container_spec(*arguments: str) -> dict[str, Any]:
    """Return the container of a tiny prediction server."""
    return {
        "imageUri": "example.invalid/tiny",
        "command": ["python", str(SERVER_SCRIPT)],
        "args": list(arguments),
        "deploymentTimeout": "20s",
    }


def deployment(model: str, **fields: Any) -> dict[str, Any]:
    """Return the body of a request that deploys a model."""
    machine = {"machineType": "n1-standard-2"}
    resources = {"machineSpec": machine, "minReplicaCount": 1}
    return {"deployedModel": {"model": model, "dedicatedResources": resources}, **fields}


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
