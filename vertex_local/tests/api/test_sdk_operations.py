"""Google's SDK through every long-running operation of the service, none done at once."""

import sys

import pytest
from google.api_core.exceptions import BadRequest, FailedPrecondition
from google.cloud import aiplatform
from kfp import compiler, dsl

from vertex_local import client
from vertex_local.tests.support import service as services
from vertex_local.tests.support.service import container_spec

pytestmark = pytest.mark.timeout(240)
SERVE_SLOWLY = [sys.executable, "-m", "vertex_local.tests.support.slow_service", "serve"]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service whose operations are all slow, as the endpoint of the SDK."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "SERVE", SERVE_SLOWLY)
        with services.running_service(tmp_path_factory.mktemp("slow") / "vertex") as running:
            services.sdk_at(running)
            yield running


@pytest.fixture
def artifact(tmp_path):
    folder = tmp_path / "artifact"
    folder.mkdir()
    (folder / "saved_model.pb").write_bytes(b"model")
    return folder


@pytest.fixture
def model(service, artifact):
    """A model whose server takes seconds to start; the SDK does not upload local folders."""
    return aiplatform.Model(upload_folder(service, artifact, "slow"))


def upload_folder(service, artifact, *arguments):
    spec = {"artifactUri": str(artifact), "containerSpec": container_spec(*arguments)}
    body = {"model": {"displayName": "slow", **spec}}
    return service.do("POST", "models:upload", body)["model"]


def upload(**arguments):
    return aiplatform.Model.upload(
        display_name="slow", serving_container_image_uri="any", **arguments
    )


def is_there(service, resource):
    return service.call("GET", f"/v1/{resource.resource_name}").status_code == 200


def was_slow(service, response):
    """Return whether a creation returns before it is done, as the tests assume."""
    return not response.json()["done"]


def test_the_service_is_slow(service):
    response = service.call("POST", "endpoints", {"displayName": "x"})
    assert was_slow(service, response)
    endpoint = service.wait_for(response.json())["response"]["name"]
    assert was_slow(service, service.call("DELETE", f"/v1/{endpoint}"))


def test_models_and_versions(service):
    first = upload()
    second = upload(parent_model=first.resource_name, version_aliases=["next"])
    assert (first.version_id, second.version_id) == ("1", "2")
    second.versioning_registry.delete_version("1")
    assert [one.version_id for one in second.versioning_registry.list_versions()] == ["2"]
    second.delete()
    assert not is_there(service, first)


def test_endpoints_from_create_to_delete(service, model):
    endpoint = aiplatform.Endpoint.create(display_name="digits")
    endpoint.deploy(model, traffic_percentage=100)
    [deployed] = endpoint.list_models()
    assert endpoint.predict(instances=[21]).predictions[0]["double"] == 42
    endpoint.deploy(model, traffic_split={"0": 50, deployed.id: 50})
    assert len(endpoint.list_models()) == 2
    endpoint.undeploy(deployed.id, traffic_split={endpoint.list_models()[1].id: 100})
    endpoint.undeploy_all()
    assert endpoint.list_models() == []
    endpoint.delete()
    assert not is_there(service, endpoint)
    model.delete()
    assert not is_there(service, model)


def test_model_deploy_creates_the_endpoint_and_forced_deletion_undeploys(service, model):
    endpoint = model.deploy(deployed_model_display_name="one")
    assert endpoint.predict(instances=[1]).predictions[0]["double"] == 2
    endpoint.delete(force=True)
    assert not is_there(service, endpoint)


@dsl.component(base_image="python:3.11")
def wait_a_while(seconds: float) -> str:
    import time

    time.sleep(seconds)
    return "done"


@dsl.pipeline(name="slow")
def slow_pipeline(seconds: float = 0.5):
    wait_a_while(seconds=seconds)


@pytest.mark.filterwarnings("ignore:The 'warn' method is deprecated")  # of the SDK's own logger
def test_pipeline_runs(service, tmp_path):
    path = str(tmp_path / "slow.yaml")
    compiler.Compiler().compile(slow_pipeline, path)
    job = aiplatform.PipelineJob(
        display_name="slow", template_path=path, pipeline_root=str(tmp_path), job_id="slow-1"
    )
    job.run()
    assert job.state.name == "PIPELINE_STATE_SUCCEEDED"
    [listed] = aiplatform.PipelineJob.list(enable_simple_view=True)
    assert listed.resource_name == job.resource_name
    assert set(listed.gca_resource.pipeline_spec) == {"pipelineInfo"}
    job.delete()
    assert not is_there(service, job)


def test_failure_of_an_operation_is_raised(service, artifact, model):
    endpoint = aiplatform.Endpoint.create(display_name="digits")
    broken = aiplatform.Model(upload_folder(service, artifact, "crash"))
    with pytest.raises(FailedPrecondition, match="out of cheese"):
        endpoint.deploy(broken)
    endpoint.deploy(model)
    with pytest.raises(BadRequest, match="is deployed to"):
        model.delete()
    endpoint.delete(force=True)
