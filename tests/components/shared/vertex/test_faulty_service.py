"""The client of a service that fails some requests: it creates nothing twice."""

from functools import partial

from components.endpoint.ensure import ensure_endpoint
from components.shared.vertex import retries
from components.shared.vertex.api import connect
from components.shared.vertex.creations import create_labelled, deploy_model, new_deployed_id
from pipelines.resources.kinds import JOB
from vertex_local.tests.support.service import container_spec, deployment, running_service

FAULTS = "GET:any=0.2;POST+DELETE:503=0.25,reset=0.25;late-seconds=0.05;seed=4"
POOL = {
    "machineSpec": {"machineType": "n1-standard-4"},
    "replicaCount": "1",
    "containerSpec": {"imageUri": "any", "command": ["python", "-c", ""]},
}


def test_our_client_creates_nothing_twice(tmp_path, artifact_folder, monkeypatch):
    monkeypatch.setattr(retries, "_backoff", lambda state: 0.01)
    with running_service(tmp_path / "bad", "--faults", FAULTS) as service:
        monkeypatch.setenv("VERTEX_EMULATOR_HOST", service.host)
        api = connect("demo", "us-central1")
        *others, endpoint = (ensure_endpoint(api, f"e{n}", run="r")["name"] for n in range(6))
        for number in range(3):
            request = {"displayName": f"j{number}", "jobSpec": {"workerPoolSpecs": [POOL]}}
            name = create_labelled(api, "customJobs", request)["name"]
            JOB.wait(api, name.rpartition("/")[2], timeout_seconds=60)
        made = [job["displayName"] for job in api.list_resources("customJobs")]
        assert made == ["j0", "j1", "j2"]
        deploy_three(api, endpoint, str(artifact_folder))
        assert len(list(api.list_resources("endpoints"))) == 6
        for name in others:
            api.wait(api.delete(name), timeout_seconds=60)
        assert [one["name"] for one in api.list_resources("endpoints")] == [endpoint]
        log = service.log()  # requests that were handled, and whose response was lost
        assert log.count("after: POST") >= 3
        assert "after: DELETE" in log


def deploy_three(api, endpoint: str, artifact_uri: str) -> None:
    model = {
        "displayName": "m",
        "artifactUri": artifact_uri,
        "containerSpec": container_spec(),
    }
    find_model = partial(find_operation, api, "models")
    upload = api.post(f"{api.parent}/models:upload", {"model": model}, find=find_model)
    name = api.wait(upload, timeout_seconds=60)["model"]
    deployed = []
    for _ in range(3):
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
