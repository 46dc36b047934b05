"""A real `vertex-local serve` on a free port, and the official SDK pointed at it."""

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import count, pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest
from google.auth.credentials import AnonymousCredentials
from google.oauth2.credentials import Credentials

from vertex_local import client, testing
from vertex_local.api.database.store import Store
from vertex_local.api.service import Service
from vertex_local.testing import PARENT, RunningService
from vertex_local.tests.support.faulty_service import command_with_faults
from vertex_local.tests.support.forks import Fork, forks_with
from vertex_local.tests.support.platform import TOKEN
from vertex_local.tests.support.waiting import wait_until

# Modules of a process that forks services and their pipelines: the first set that has them all.
FORKED = [("kfp.local", "kfp.dsl.executor_main", "vertex_local.server")]
HEADERS = client.authorization(TOKEN)
CREDENTIALS = Credentials(TOKEN) if TOKEN else AnonymousCredentials()
PRELOAD_KFP = ("--preload", "kfp.local,kfp.dsl.executor_main")
PROJECTS = count(1)
WORK = ["pipelineJobs", "trainingPipelines", "hyperparameterTuningJobs", "customJobs", "operations"]
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


def run_cli(log_path: Path, *arguments: str, **environ: str) -> tuple[int, str]:
    """Run `vertex-local ARGUMENTS…` as a fork; return its exit code and what is in its log."""
    words = ["python", "-m", "vertex_local.cli", *arguments]
    ended = forks_with(*FORKED[0]).start(words, log_path=log_path, **environ)
    return ended.wait(60), ended.output


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
def own_service(tmp_path: Path) -> Iterator[RunningService]:
    """Start a service for one test, which may stop it and look at its folder and its processes.

    `service`, `upload` and `aiplatform` of a test that uses this fixture use that service, too.
    """
    with running_service(tmp_path / "vertex") as running:
        yield running


@pytest.fixture(scope="module")
def forking_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """Start a service for the tests of a module, some of which end it and start it again.

    Its steps and replicas are forks of a process that has imported KFP.
    """
    with running_service(tmp_path_factory.mktemp("forking") / "vertex", *PRELOAD_KFP) as running:
        yield running


@pytest.fixture(scope="session")
def shared_service(tmp_path_factory: Any) -> Iterator[Callable[[], RunningService]]:
    """Return the service that the tests of this process share, a new one if it has ended."""
    with ExitStack() as stack:
        started: list[RunningService] = []

        def current() -> RunningService:
            if not started or started[-1].process.poll() is not None:
                root = tmp_path_factory.mktemp("service") / "vertex"
                started.append(stack.enter_context(running_service(root, *PRELOAD_KFP)))
            return started[-1]

        yield current


@pytest.fixture
def service(request: pytest.FixtureRequest) -> Iterator[RunningService]:
    """Return an empty project of a service that other tests use, too: see `own_service`."""
    if "own_service" in request.fixturenames:
        yield request.getfixturevalue("own_service")
        return
    project = copy.copy(request.getfixturevalue("shared_service")())
    project.parent = f"projects/test-{next(PROJECTS)}/locations/us-central1"
    yield project
    assert project.process.poll() is None, f"this test needs own_service: {project.log()}"
    end_all(project)


def end_all(project: RunningService) -> None:
    """End what a test has left in its project: schedules, work, servers."""

    def listed(kind: str) -> list[Any]:
        return [*project.do("GET", kind)[kind]]

    def try_to_end() -> bool:
        for schedule in listed("schedules"):
            project.call("DELETE", f"/v1/{schedule['name']}")
        for kind in WORK:
            for work in listed(kind):
                if not (work.get("done") or "endTime" in work):
                    project.call("POST", f"/v1/{work['name']}:cancel", {})
        for endpoint in listed("endpoints"):
            ids = [deployed["id"] for deployed in endpoint.get("deployedModels", [])]
            for number, deployed_id in enumerate(ids, 1):
                split = dict.fromkeys(ids[number : number + 1], 100)
                body = {"deployedModelId": deployed_id, "trafficSplit": split}
                project.call("POST", f"/v1/{endpoint['name']}:undeployModel", body)
        # One remains: the warm process, which forks the others.
        return len(psutil.Process(project.process.pid).children(recursive=True)) <= 1

    wait_until(try_to_end, "the end of the test's processes", poll_seconds=0.1)


def sdk_at(service: RunningService) -> ModuleType:
    """Return the official SDK, pointed at a service that it asks often for the end of its work."""
    from google.api_core.future import polling
    from google.cloud import aiplatform
    from google.cloud.aiplatform import jobs, pipeline_jobs

    polling.DEFAULT_POLLING._initial, polling.DEFAULT_POLLING._maximum = 0.1, 0.1
    jobs._JOB_WAIT_TIME = pipeline_jobs._JOB_WAIT_TIME = 0.2

    aiplatform.init(**service.sdk_options)
    return aiplatform


@pytest.fixture
def aiplatform(service):
    """Return the official SDK, pointed at the service."""
    return sdk_at(service)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Open a new database, and close it after the test."""
    store = Store(tmp_path / "vertex.db")
    yield store
    store.close()


@pytest.fixture
def idle_service(tmp_path: Path, store: Store) -> Service:
    """Return a service as an argument of handlers, without a server."""
    return Service(root=tmp_path, store=store, url="http://127.0.0.1:1")


@pytest.fixture
def artifact_folder(tmp_path):
    """Write a folder like an exported model."""
    folder = tmp_path / "artifact"
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"model bytes")
    (folder / "variables" / "data").write_bytes(os.urandom(1000))
    return folder


@pytest.fixture
def endpoint(service):
    """Return the name of a new endpoint."""
    return service.do("POST", "endpoints", {"displayName": "digits"})["name"]


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
        return service.do("POST", "models:upload", {**request, "model": model | fields})

    return do
