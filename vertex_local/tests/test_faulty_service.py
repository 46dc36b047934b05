"""Clients of a service with injected faults: they create nothing twice."""

import json
import re
import uuid

import pytest
import requests
from google_cloud_pipeline_components.types.artifact_types import (
    UnmanagedContainerModel,
    VertexEndpoint,
    VertexModel,
)
from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp
from google_cloud_pipeline_components.v1.endpoint import (
    EndpointCreateOp,
    EndpointDeleteOp,
    ModelDeployOp,
    ModelUndeployOp,
)
from google_cloud_pipeline_components.v1.model import ModelDeleteOp, ModelUploadOp

from vertex_local.client import LocalService
from vertex_local.pipelines.gcpc import client as client_module
from vertex_local.pipelines.gcpc.operator import Operator
from vertex_local.tests.support.gcpc_tasks import job_arguments, resolved_command, resource
from vertex_local.tests.support.service import PROJECT_AND_LOCATION, container_spec, running_service

FAULTS = "GET:any=0.2;POST+DELETE:503=0.2,reset=0.2;late-seconds=0.05;seed=5"
NUM_ENDPOINTS = 15


@pytest.fixture
def bad_service(tmp_path, monkeypatch):
    """A service that fails four changes in ten, half of them after their execution."""
    monkeypatch.setattr(client_module, "FIRST_DELAY_SECONDS", 0.01)
    with running_service(tmp_path / "bad", "--faults", FAULTS) as running:
        yield running


def steady(service, path: str) -> list[dict]:
    """Return a list, with retries."""
    response = client_module.call(
        service.session,
        "GET",
        f"{service.url}/v1/{service.parent}/{path}",
        write_log=lambda line: None,
    )
    return response.get(path, [])


def faults_logged(service) -> list[str]:
    return re.findall(r"fault \d+: ([^:]+):", (service.root / "serve.log").read_text())


def test_a_reset_closes_the_connection_without_a_response(tmp_path):
    with running_service(tmp_path / "vertex", "--faults", "POST:reset=1") as service:
        for _ in range(10):
            with pytest.raises(requests.ConnectionError, match="reset"):
                service.call("POST", "endpoints", {"displayName": "e"})
        made = service.do("GET", "endpoints").get("endpoints", [])
        assert 0 < len(made) < 10, "some were carried out before the connection ended"
        assert sorted(set(faults_logged(service))) == ["reset", "reset after"]


def test_gcpc_operations_create_nothing_twice(bad_service, tmp_path, artifact_folder, monkeypatch):
    monkeypatch.setenv("VERTEX_AI_PIPELINES_RUN_LABELS", "{}")
    log: list[str] = []

    def execute(component, **arguments) -> dict:
        folder = tmp_path / uuid.uuid4().hex
        folder.mkdir()
        command = resolved_command(component, folder, **arguments)
        Operator(url=bad_service.url, must_stop=lambda: False, write_log=log.append).execute(
            command
        )
        return {path.name: json.loads(path.read_text()) for path in folder.iterdir()}

    unmanaged = UnmanagedContainerModel(
        name="unmanaged_container_model",
        uri=str(artifact_folder),
        metadata={"containerSpec": {**container_spec(), "ports": [{"containerPort": 8080}]}},
    )
    upload = {"display_name": "m", "unmanaged_container_model": unmanaged, **PROJECT_AND_LOCATION}
    name = resource(execute(ModelUploadOp, **upload), "model")
    parent = VertexModel.create("parent_model", "", name)
    for version in (2, 3):
        again = execute(ModelUploadOp, **upload, parent_model=parent)
        assert resource(again, "model") == f"{name.partition('@')[0]}@{version}"
    endpoints = [
        resource(
            execute(EndpointCreateOp, display_name=f"e{number}", **PROJECT_AND_LOCATION), "endpoint"
        )
        for number in range(NUM_ENDPOINTS)
    ]
    assert [one["name"] for one in steady(bad_service, "endpoints")] == endpoints
    endpoint = endpoints[0]
    there = {
        "model": VertexModel.create("model", "", name),
        "endpoint": VertexEndpoint.create("endpoint", "", endpoint),
    }
    execute(
        ModelDeployOp,
        **there,
        traffic_split={"0": "100"},
        dedicated_resources_machine_type="n1-standard-4",
        dedicated_resources_min_replica_count=1,
        dedicated_resources_max_replica_count=1,
    )
    found = steady(bad_service, "endpoints")
    assert [len(one.get("deployedModels", [])) for one in found] == [1] + [0] * (NUM_ENDPOINTS - 1)
    execute(ModelUndeployOp, **there)
    for one in endpoints:
        execute(EndpointDeleteOp, endpoint=VertexEndpoint.create("endpoint", "", one))
    execute(ModelDeleteOp, model=there["model"])
    execute(CustomTrainingJobOp, **job_arguments("pass"))

    assert steady(bad_service, "endpoints") == steady(bad_service, "models") == []
    assert len(steady(bad_service, "customJobs")) == 1
    assert len(faults_logged(bad_service)) > 5
    assert any("attempt 2" in line for line in log)


def test_a_service_with_faults_is_detected(bad_service, monkeypatch):
    monkeypatch.setenv("VERTEX_EMULATOR_HOST", bad_service.url.removeprefix("http://"))
    for _ in range(20):
        LocalService(bad_service.root).join()


def test_a_location_lists_the_operations_of_all_its_resources(service):
    names = [service.do("POST", "endpoints", {"displayName": "e"})["name"] for _ in range(2)]
    listed = service.do("GET", "operations")["operations"]
    assert [one["name"].rpartition("/operations/")[0] for one in listed] == names
    since = listed[1]["metadata"]["genericMetadata"]["createTime"]
    found = service.do("GET", f'operations?filter=create_time>="{since}"')["operations"]
    assert found == listed[1:]
    assert service.do("GET", f"/v1/{names[0]}/operations")["operations"] == listed[:1]
