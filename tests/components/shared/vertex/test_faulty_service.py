"""The client of a service that fails some requests: it creates nothing twice."""

from functools import partial

import pytest

from components.endpoint.ensure import ensure_endpoint
from components.shared.vertex import retries
from components.shared.vertex.api import connect
from components.shared.vertex.creations import create_labelled, deploy_model, new_deployed_id
from pipelines.resources.kinds import JOB
from vertex_local.tests.support.service import container_spec, deployment, running_service

FAULTS = "GET:any=0.2;POST+DELETE:503=0.2,reset=0.2;late-seconds=0.05;seed=5"


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    """Make the client retry at once."""
    monkeypatch.setattr(retries, "_backoff", lambda state: 0.01)


def test_our_client_creates_nothing_twice(tmp_path, monkeypatch):
    with running_service(tmp_path / "bad", "--faults", FAULTS) as service:
        monkeypatch.setenv("VERTEX_EMULATOR_HOST", service.host)
        create_and_delete(connect("demo", "us-central1"))
        assert service.log().count("fault ") > 10


def create_and_delete(api) -> None:
    for number in range(8):
        ensure_endpoint(api, f"e{number}", run="r")
    pool = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": "1",
        "containerSpec": {"imageUri": "any", "command": ["python", "-c", ""]},
    }
    for number in range(4):
        request = {"displayName": f"j{number}", "jobSpec": {"workerPoolSpecs": [pool]}}
        name = create_labelled(api, "customJobs", request)["name"]
        JOB.wait(api, name.rpartition("/")[2], timeout_seconds=60)

    endpoints = list(api.list_resources("endpoints"))
    assert sorted(one["displayName"] for one in endpoints) == [f"e{n}" for n in range(8)]
    made = [job["displayName"] for job in api.list_resources("customJobs")]
    assert made == [f"j{n}" for n in range(4)]
    for endpoint in endpoints:
        api.wait(api.delete(endpoint["name"]), timeout_seconds=60)
    assert list(api.list_resources("endpoints")) == []


def test_a_model_is_deployed_once(tmp_path, artifact_folder, monkeypatch):
    faults = "GET:any=0.2;POST:503=0.3,reset=0.3;late-seconds=0.05;seed=4"
    with running_service(tmp_path / "bad", "--faults", faults) as service:
        monkeypatch.setenv("VERTEX_EMULATOR_HOST", service.host)
        api = connect("demo", "us-central1")
        endpoint = ensure_endpoint(api, "e", run="r")["name"]
        model = {
            "displayName": "m",
            "artifactUri": str(artifact_folder),
            "containerSpec": container_spec(),
        }
        find_model = partial(find_operation, api, "models")
        upload = api.post(f"{api.parent}/models:upload", {"model": model}, find=find_model)
        name = api.wait(upload, timeout_seconds=60)["model"]
        deployed = []
        for _ in range(5):
            deployed_model = {**deployment(name)["deployedModel"], "id": new_deployed_id()}
            operation = deploy_model(api, endpoint, deployed_model)
            deployed.append(api.wait(operation, timeout_seconds=60)["deployedModel"]["id"])
            there = api.get(endpoint)
            assert [one["id"] for one in there["deployedModels"]] == deployed
            assert there["trafficSplit"] == {deployed[0]: 100}
        assert len(list(api.list_resources("models"))) == 1


def find_operation(api, collection: str) -> dict | None:
    """Return the operation that created the only resource of a collection."""
    name = next((one["name"] for one in api.list_resources(collection)), None)
    return name and {"done": True, "response": {"model": name.partition("@")[0]}}
