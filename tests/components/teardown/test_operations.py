"""Teardown while an operation that a lost task began still goes on; deployments have this fault."""

import pytest

from components.endpoint.ensure import ensure_endpoint
from components.errors import StepError
from components.model_version.registry import list_versions
from components.shared.vertex import creations
from components.shared.vertex.labels import CANDIDATE, RUN_LABEL, STATE_LABEL
from components.teardown.run_resources import RunResources
from components.teardown.teardown import tear_down
from vertex_local.tests.support.service import running_service


@pytest.fixture(scope="module")
def all_projects(tmp_path_factory):
    """Start a service whose deployments take a second longer and cannot be stopped."""
    root = tmp_path_factory.mktemp("slow") / "vertex"
    with running_service(root, "--faults", "slow-deploy-seconds=1") as running:
        yield running


@pytest.fixture
def service(all_projects, tmp_path):
    """Return the service with a project of the test's own as its parent."""
    project = tmp_path.name.replace("_", "-")
    all_projects.parent = f"projects/{project}/locations/us-central1"
    return all_projects


@pytest.fixture
def deploying(api, upload):
    """Begin a deployment of a candidate to an endpoint, as a launcher that then dies."""

    def do(endpoint: str) -> dict:
        model = upload(labels={RUN_LABEL: "run-1", STATE_LABEL: CANDIDATE})["model"]
        resources = {"machineSpec": {"machineType": "n1-standard-4"}, "minReplicaCount": 1}
        body = {"deployedModel": {"model": model, "dedicatedResources": resources}}
        operation = api.post(f"{endpoint}:deployModel", body)
        assert not operation.get("done")
        return operation

    return do


def test_nothing_is_deployed_after_a_deployment_that_no_task_awaited(api, deploying):
    endpoint = ensure_endpoint(api, "digits", run="run-0")["name"]
    operation = deploying(endpoint)

    tear_down(RunResources.of_run(api, "run-1"))

    api.wait(operation, timeout_seconds=60)
    assert not api.get(endpoint).get("deployedModels")
    assert list(api.list_resources("models")) == []


def test_the_runs_own_endpoint_is_deleted_after_its_operations(api, deploying):
    own = creations.endpoint_id_of("run-1")
    endpoint = ensure_endpoint(api, "digits", run="run-1", endpoint_id=own)["name"]
    deploying(endpoint)

    tear_down(RunResources.of_run(api, "run-1"))

    assert list(api.list_resources("endpoints")) == []
    assert list(api.list_resources("models")) == []


def test_nothing_is_deleted_while_an_operation_goes_on(api, deploying, monkeypatch):
    endpoint = ensure_endpoint(api, "digits", run="run-0")["name"]
    operation = deploying(endpoint)
    with monkeypatch.context() as patch:
        patch.setattr(creations, "DEPLOY_TIMEOUT_SECONDS", 0.1)
        with pytest.raises(StepError, match=rf"incomplete: {operation['name']} was not done after"):
            tear_down(RunResources.of_run(api, "run-1"))
    [model] = api.list_resources("models")
    assert len(list_versions(api, model["name"].partition("@")[0])) == 1

    tear_down(RunResources.of_run(api, "run-1"))

    assert not api.get(endpoint).get("deployedModels")


def test_a_repeated_step_finds_the_endpoint_that_it_created(api):
    own = creations.endpoint_id_of("run-1")
    body = {"displayName": "digits", "labels": {RUN_LABEL: "run-1"}}
    created = creations.create_endpoint(api, body, endpoint_id=own)["response"]

    repeated = creations.create_endpoint(api, body, endpoint_id=own)

    assert repeated["response"]["name"] == created["name"]
    assert len(list(api.list_resources("endpoints"))) == 1
