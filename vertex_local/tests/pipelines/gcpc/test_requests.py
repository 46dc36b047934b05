import json

import pytest

from vertex_local.pipelines.gcpc.requests import (
    BUILDERS,
    SUPPORTED,
    GcpcError,
    GcpcRequest,
    is_launch,
    parse_launch,
    undeploy_model,
)

pytestmark = pytest.mark.fast

PARENT = "projects/p/locations/l"
MODEL = f"{PARENT}/models/7"
ENDPOINT = f"{PARENT}/endpoints/9"
POOL = {
    "machine_spec": {"machine_type": "n1"},
    "replica_count": 1,
    "container_spec": {"args": [""]},
}
CONTAINER = {"imageUri": "i", "ports": [{"containerPort": 8080.0}], "args": []}


@pytest.fixture(autouse=True)
def run_labels(monkeypatch):
    monkeypatch.setenv("VERTEX_AI_PIPELINES_RUN_LABELS", '{"run": "r1", "own": "run"}')


def command(operation: str, payload: object, **options: str) -> list[str]:
    text = payload if isinstance(payload, str) else json.dumps(payload)
    arguments = {"type": operation, "payload": text, "project": "p", "location": "l"}
    arguments |= {"gcp_resources": "/tmp/r", **options}
    module = "google_cloud_pipeline_components.container.v1.any.launcher"
    flat = [word for name, value in arguments.items() for word in (f"--{name}", value)]
    return ["python3", "-u", "-m", module, *flat]


def request_of(operation: str, payload: object, **options: str) -> GcpcRequest:
    return BUILDERS[operation](parse_launch(command(operation, payload, **options)))


def test_labels_that_are_null_are_those_of_the_run():
    """As `create_custom_training_job_from_component` writes them."""
    request = request_of("CustomJob", {"display_name": "j", "labels": None})
    assert request.body["labels"] == {"run": "r1", "own": "run"}


@pytest.mark.parametrize(
    ("strategy", "has_wait"), [("STANDARD", False), ("FLEX_START", True), ("", True)]
)
def test_custom_job(strategy, has_wait):
    scheduling = {"timeout": "60s", "strategy": strategy, "max_wait_duration": "5s"}
    spec = {"worker_pool_specs": [POOL], "scheduling": scheduling, "network": "", "tensorboard": ""}
    payload = {"display_name": "j", "job_spec": spec, "labels": {"own": "job"}}
    kept = {k: v for k, v in scheduling.items() if v and (has_wait or k != "max_wait_duration")}
    body = {
        "display_name": "j",
        "job_spec": {"worker_pool_specs": [POOL], "scheduling": kept},
        "labels": {"run": "r1", "own": "job"},
    }
    assert request_of("CustomJob", payload) == GcpcRequest("POST", f"{PARENT}/customJobs", body)


def test_upload_model_takes_the_container_from_the_artifact():
    artifact = {"uri": "/m", "metadata": {"containerSpec": CONTAINER}}
    inputs = {"artifacts": {"unmanaged_container_model": {"artifacts": [artifact]}}}
    payload = {
        "display_name": "m",
        "description": "",
        "explanation_spec": {"parameters": {}, "metadata": {}},
        "version_aliases": ["champion"],
        "labels": {},
    }
    request = request_of(
        "UploadModel",
        payload,
        executor_input=json.dumps({"inputs": inputs}),
        parent_model_name=f"{MODEL}@2",
    )
    model = {
        "display_name": "m",
        "version_aliases": ["champion"],
        "labels": {"run": "r1", "own": "run"},
        "container_spec": {"image_uri": "i", "ports": [{"container_port": 8080.0}]},
        "artifact_uri": "/m",
    }
    body = {"model": model, "parent_model": MODEL}
    assert request == GcpcRequest("POST", f"{PARENT}/models:upload", body)


@pytest.mark.parametrize(("version", "deployed_id"), [("@2", "22"), ("@1", "11"), ("", "11")])
def test_undeploy_model_finds_the_deployed_version(version, deployed_id):
    payload = {"endpoint": ENDPOINT, "model": f"{MODEL}{version}", "traffic_split": {"5": "100"}}
    deployed = [
        {"id": "1", "model": f"{PARENT}/models/8", "modelVersionId": "1"},
        {"id": "11", "model": MODEL, "modelVersionId": "1"},
        {"id": "22", "model": MODEL, "modelVersionId": "2"},
    ]
    launch = parse_launch(command("UndeployModel", payload))
    request = undeploy_model(launch, {"deployedModels": deployed})
    body = {"deployed_model_id": deployed_id, "traffic_split": {"5": "100"}}
    assert request == GcpcRequest("POST", f"{ENDPOINT}:undeployModel", body)
    with pytest.raises(GcpcError, match="is not deployed on"):
        undeploy_model(launch, {})


@pytest.mark.parametrize(
    ("operation", "payload", "message"),
    [
        (
            "CustomJob",
            {"job_spec": {"worker_pool_specs": [POOL, {"replicaCount": 1}]}},
            r"job_spec\.worker_pool_specs\[1\]\.replicaCount; .* written 'replica_count'",
        ),
        ("DeployModel", {"endpoint": "9"}, "endpoint '9' is not a resource name"),
        ("DeleteModel", {}, "model '' is not a resource name"),
        ("CreateEndpoint", '{"display_name": "a"b"}', "CreateEndpoint is not JSON"),
        ("CreateEndpoint", "[]", "not a JSON object"),
    ],
)
def test_bad_payloads_are_named(operation, payload, message):
    with pytest.raises(GcpcError, match=message):
        request_of(operation, payload)


def test_the_error_for_another_operation_lists_the_supported_ones():
    module = "google_cloud_pipeline_components.container.v1.model.get_model.launcher"
    with pytest.raises(GcpcError) as error:
        parse_launch(["python3", "-m", module, "--model_name", "m"])
    assert module in str(error.value)
    assert ", ".join(SUPPORTED) in str(error.value)


def test_is_launch_accepts_only_launchers():
    assert is_launch(command("CustomJob", {}))
    assert not is_launch(["sh", "-ec", "python3 -m kfp.dsl.executor_main"])
    assert not is_launch(["python3", "-m"])
