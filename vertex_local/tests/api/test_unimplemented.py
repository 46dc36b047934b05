"""Errors of Google's SDK for methods that the service does not implement."""

import re

import pytest
from google.api_core import exceptions
from google.cloud import aiplatform
from google.cloud.aiplatform_v1.services.vizier_service import VizierServiceClient

from vertex_local.tests.support.service import CREDENTIALS

PARENT = "projects/sdk/locations/us-central1"
WHERE = {"project": "sdk", "location": "us-central1", "api_transport": "rest"}
KINDS = (
    "batchPredictionJobs, customJobs, endpoints, hyperparameterTuningJobs, models, operations, "
    "pipelineJobs, schedules, trainingPipelines"
)


@pytest.fixture(scope="module")
def sdk(shared_service):
    """The SDK in a project of the shared service that has a model and an endpoint."""
    sdk = Sdk(shared_service().url)
    sdk.model = aiplatform.Model.upload(display_name="m", serving_container_image_uri="i")
    sdk.endpoint = aiplatform.Endpoint.create(display_name="e")
    return sdk


class Sdk:
    """Calls of the SDK that need more than a name."""

    def __init__(self, url):
        self.where = {**WHERE, "api_endpoint": url, "credentials": CREDENTIALS}
        aiplatform.init(**self.where)

    def client(self, kind):
        options = {"api_endpoint": self.where["api_endpoint"]}
        return kind(transport="rest", credentials=self.where["credentials"], client_options=options)


# Each with the kind of resource that the service lacks.
KIND_CALLS = {
    "create": (lambda sdk: aiplatform.Tensorboard.create(display_name="x"), "tensorboards"),
    "list": (lambda sdk: aiplatform.ImageDataset.list(), "datasets"),
    "get": (lambda sdk: aiplatform.Tensorboard("5"), "tensorboards"),
    "get before create": (lambda sdk: aiplatform.Featurestore.create("fs"), "featurestores"),
    "init(experiment=)": (
        lambda sdk: aiplatform.init(experiment="x", **sdk.where),
        "metadataStores",
    ),
    "client": (
        lambda sdk: sdk.client(VizierServiceClient).create_study(
            parent=PARENT, study={"display_name": "x"}
        ),
        "studies",
    ),
}


@pytest.mark.parametrize(("call", "missing"), KIND_CALLS.values(), ids=KIND_CALLS)
def test_the_error_names_the_missing_kind_and_the_implemented_ones(sdk, call, missing):
    with pytest.raises(exceptions.MethodNotImplemented) as error:
        call(sdk)
    assert re.search(rf"/{missing}\b", error.value.message)
    assert KINDS in error.value.message


def test_the_error_names_the_missing_method(sdk):
    with pytest.raises(exceptions.MethodNotImplemented, match=r"POST .*:explain.* COVERAGE\.md"):
        sdk.endpoint.explain(instances=[1])


@pytest.mark.parametrize(
    "call",
    [
        lambda: aiplatform.Model("77"),
        lambda: aiplatform.Endpoint("77").list_models(),
        lambda: aiplatform.PipelineJob.get("x"),
        lambda: aiplatform.CustomJob.get("77"),
    ],
)
@pytest.mark.usefixtures("sdk")
def test_a_missing_resource_is_not_found(call):
    with pytest.raises(exceptions.NotFound, match=r"s/(77|x) is not found"):
        call()
