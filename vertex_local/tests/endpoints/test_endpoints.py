"""Endpoints: real processes behind deployed models, over the official SDK and plain HTTP."""

import json
import re

import pytest
from google.api_core import exceptions

from vertex_local.machine.ports import PortPool
from vertex_local.tests.support.seen import is_running
from vertex_local.tests.support.service import SERVER_SCRIPT, deployment


@pytest.fixture
def deploy(service, endpoint):
    """Return a function that deploys a model and returns the deployed model."""

    def do(model: str, **fields):
        body = deployment(model, **fields)
        return service.do("POST", f"/v1/{endpoint}:deployModel", body)["deployedModel"]

    return do


def predict(service, endpoint, *instances):
    return service.call("POST", f"/v1/{endpoint}:predict", {"instances": list(instances)})


def test_sdk_deploys_predicts_undeploys_and_deletes(aiplatform, upload):
    model = aiplatform.Model(upload("--port", "$(AIP_HTTP_PORT)")["model"])
    endpoint = aiplatform.Endpoint.create(display_name="digits", labels={"run": "a"})
    model.deploy(endpoint=endpoint, machine_type="n1-standard-2", deployed_model_display_name="d")
    (deployed,) = endpoint.list_models()
    assert (deployed.display_name, deployed.model_version_id) == ("d", "1")
    assert endpoint.traffic_split == {deployed.id: 100}

    answer = endpoint.predict(instances=[1, 20])
    assert [p["double"] for p in answer.predictions] == [2, 40]
    assert answer.predictions[0]["files"] == ["saved_model.pb", "variables"]
    assert answer.predictions[0]["argv"][1].isdigit()
    assert answer.deployed_model_id == deployed.id
    assert (answer.model_resource_name, answer.model_version_id) == (model.resource_name, "1")

    with pytest.raises(exceptions.BadRequest, match=r"instances\[0\]: not a number"):
        endpoint.predict(instances=["x"])
    with pytest.raises(exceptions.BadRequest, match="deployed"):
        model.delete()
    with pytest.raises(exceptions.BadRequest, match="undeploy"):
        endpoint.delete()
    endpoint.undeploy_all()
    assert endpoint.list_models() == []
    endpoint.delete()
    model.delete()
    with pytest.raises(exceptions.NotFound):
        aiplatform.Endpoint(endpoint.resource_name).list_models()


def test_second_version_is_deployed_beside_the_first_and_takes_over(
    service, endpoint, deploy, upload
):
    name = upload()["model"]
    upload("two", parentModel=name)
    first = deploy(f"{name}@1")
    second = deploy(f"{name}@2", trafficSplit={"0": 25, first["id"]: 75})
    assert second["modelVersionId"] == "2"
    chosen = {predict(service, endpoint, 1).json()["modelVersionId"] for _ in range(60)}
    assert chosen == {"1", "2"}

    undeploy = f"/v1/{endpoint}:undeployModel"
    error = service.call("POST", undeploy, {"deployedModelId": first["id"]}).json()["error"]
    assert error["status"] == "FAILED_PRECONDITION"
    assert "75% of the traffic" in error["message"]
    service.do(
        "PATCH", f"/v1/{endpoint}?updateMask=trafficSplit", {"trafficSplit": {second["id"]: 100}}
    )
    service.do("POST", undeploy, {"deployedModelId": first["id"]})
    assert service.do("GET", f"/v1/{endpoint}")["trafficSplit"] == {second["id"]: 100}
    assert predict(service, endpoint, 1).json()["predictions"][0]["argv"] == ["two"]


def test_deploy_is_asynchronous_and_done_only_when_healthy(service, endpoint, upload, tmp_path):
    held = tmp_path / "held"
    held.touch()
    body = deployment(upload(f"hold={held}")["model"])
    operation = service.call("POST", f"/v1/{endpoint}:deployModel", body).json()
    assert not operation["done"]
    assert "deployedModels" not in service.do("GET", f"/v1/{endpoint}")
    held.unlink()
    waited = service.call("POST", f"/v1/{operation['name']}:wait", {"timeout": "20s"}).json()
    assert waited["done"]
    assert predict(service, endpoint, 4).json()["predictions"][0]["double"] == 8


@pytest.mark.parametrize(
    ("argument", "message"),
    [("crash", "out of cheese"), ("unhealthy", r"not healthy on http://127\.0\.0\.1:\d+/")],
)
def test_a_server_that_does_not_become_healthy_fails_the_deployment(
    service, endpoint, upload, argument, message
):
    spec = {"imageUri": "x", "command": ["python", str(SERVER_SCRIPT), argument]}
    model = upload(containerSpec={**spec, "deploymentTimeout": "2s"})["model"]
    body = deployment(model)
    answer = service.call("POST", f"/v1/{endpoint}:deployModel", body).json()
    error = service.wait_for(answer)["error"]
    assert re.search(message, error["message"])
    assert "Last lines:" in error["message"]
    assert not service.do("GET", f"/v1/{endpoint}").get("deployedModels")
    service.do("DELETE", f"/v1/{model}")


def test_a_server_gets_the_port_of_its_model_where_that_is_free(service, endpoint, deploy, upload):
    [port] = PortPool().take(1)
    command = {"imageUri": "x", "command": ["python", str(SERVER_SCRIPT), "$(AIP_HTTP_PORT)"]}
    model = upload(containerSpec={**command, "ports": [{"containerPort": port}]})["model"]

    def port_of_server():
        return predict(service, endpoint, 1).json()["predictions"][0]["argv"]

    first = deploy(model)
    assert port_of_server() == [str(port)]
    second = deploy(model, trafficSplit={"0": 100, first["id"]: 0})
    [other] = port_of_server()
    assert other != str(port)
    assert f"its port {port} is in use; AIP_HTTP_PORT is {other}" in service.log()
    service.do("POST", f"/v1/{endpoint}:undeployModel", {"deployedModelId": first["id"]})
    deploy(model, trafficSplit={"0": 100, second["id"]: 0})
    assert port_of_server() == [str(port)], "it is free again"


def test_deployment_can_be_cancelled(service, endpoint, upload):
    body = deployment(upload("unhealthy")["model"])
    operation = service.call("POST", f"/v1/{endpoint}:deployModel", body).json()
    service.do("POST", f"/v1/{operation['name']}:cancel", {})
    assert service.wait_for(operation)["error"]["code"] == 1


def test_undeploy_ends_the_process(service, endpoint, deploy, upload):
    deployed = deploy(upload()["model"])
    pid = predict(service, endpoint, 1).json()["predictions"][0]["pid"]
    service.do("POST", f"/v1/{endpoint}:undeployModel", {"deployedModelId": deployed["id"]})
    assert not is_running(pid)
    response = predict(service, endpoint, 1)
    assert response.json()["error"]["status"] == "FAILED_PRECONDITION"


def test_a_split_or_a_model_that_cannot_be_deployed_is_refused_before_anything_starts(
    service, endpoint
):
    model = {"displayName": "image only", "containerSpec": {"imageUri": "x"}}
    name = service.do("POST", "models:upload", {"model": model})["model"]
    for fields, message in ({"trafficSplit": {"0": 60}}, "60"), ({}, "containerSpec.command"):
        body = deployment(name, **fields)
        response = service.call("POST", f"/v1/{endpoint}:deployModel", body)
        assert response.status_code == 400
        assert message in response.json()["error"]["message"]


def test_predict_checks_its_body(service, endpoint):
    response = service.call("POST", f"/v1/{endpoint}:predict", {"instance": [1]})
    assert '"instance"' in response.json()["error"]["message"]
    response = service.call("POST", f"/v1/{endpoint}:predict", {"instances": 1})
    assert response.status_code == 400


def test_raw_predict_passes_bodies_and_statuses_through(service, endpoint, deploy, upload):
    model = upload()["model"]
    deployed = deploy(model)
    address = f"{service.url}/v1/{endpoint}:rawPredict"
    response = service.session.post(address, data=b' {"instances" : [21]}', timeout=60)
    assert response.status_code == 200
    (prediction,) = json.loads(response.content)["predictions"]
    assert prediction["double"] == 42
    assert response.headers["X-Vertex-AI-Deployed-Model-Id"] == deployed["id"]
    assert response.headers["X-Vertex-AI-Model"] == model
    assert response.headers["X-Vertex-AI-Model-Version-Id"] == "1"
    assert response.headers["X-Vertex-AI-Endpoint-Id"] == endpoint.rpartition("/")[2]
    response = service.session.post(address, data=b'{"instances": ["x"]}', timeout=60)
    error = {"error": {"message": "instances[0]: not a number"}}
    assert (response.status_code, json.loads(response.content)) == (400, error)
