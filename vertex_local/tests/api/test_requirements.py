"""Fields that Vertex AI refuses, and those that it must take; `requests.yaml` has the rest."""

import pytest

from vertex_local.api import protos
from vertex_local.errors import ApiError

pytestmark = pytest.mark.fast

MACHINES = (
    "n1-standard-4",
    "n1-highmem-96",
    "n1-ultramem-40",
    "n2-highcpu-80",
    "n2d-standard-224",
    "e2-standard-32",
    "c2-standard-60",
    "c2d-highmem-112",
    "c3-standard-22",
    "c3-highcpu-176",
    "m1-ultramem-160",
    "m1-megamem-96",
    "a2-highgpu-1g",
    "a2-ultragpu-8g",
    "a2-megagpu-16g",
    "a3-highgpu-8g",
    "a3-megagpu-8g",
    "a3-ultragpu-8g",
    "a3-edgegpu-8g-nolssd",
    "a4-highgpu-8g",
    "a4x-highgpu-4g",
    "g2-standard-96",
    "g4-standard-48",
    "h3-standard-88",
    "cloud-tpu",
    "ct5lp-hightpu-4t",
    "ct6e-standard-8t",
    "tpu7x-standard-4t",
    "c3d-standard-4-lssd",
)


def refused(type_name, body, **arguments):
    """Return the fields that are refused, with the reasons."""
    try:
        protos.parse(type_name, body, **arguments)
    except ApiError as error:
        return dict(error.violations)
    return {}


@pytest.mark.parametrize("machine", MACHINES)
def test_machine_types_of_vertex_ai_are_taken(machine):
    resources = {"machineSpec": {"machineType": machine}, "minReplicaCount": 1}
    assert refused("DedicatedResources", resources) == {}


@pytest.mark.parametrize("machine", ["potato", "n1", "n1-standard", "n1-standard-4x", "z9-huge-4"])
def test_others_are_refused(machine):
    [problem] = refused("MachineSpec", {"machineType": machine}).values()
    assert problem == f'Machine type "{machine}" is not supported.'


def test_a_deployed_model_has_a_machine_by_default():
    assert refused("DedicatedResources", {"machineSpec": {}, "minReplicaCount": 1}) == {}


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"a": ""},
        {"a" * 63: "b" * 63},
        {f"a{number}": "b" for number in range(64)},
        {"vertex-ai-pipelines-run-billing-id": "4711"},
        {"größe": "超大_1"},
        {"1-digit": "-"},
    ],
)
def test_labels_of_vertex_ai_are_taken(labels):
    assert refused("Endpoint", {"displayName": "e", "labels": labels}) == {}


@pytest.mark.parametrize("labels", [{"": "a"}, {"_a": "b"}, {"ä" * 64: ""}, {"a": "b c"}])
def test_others_are_no_labels(labels):
    assert list(refused("Endpoint", {"displayName": "e", "labels": labels})) == ["endpoint.labels"]


def test_metrics_that_googles_sdk_sends_are_taken():
    metric = "pubsub.googleapis.com/subscription/num_undelivered_messages"
    assert refused("AutoscalingMetricSpec", {"metricName": metric, "target": 500}) == {}


def test_all_errors_are_listed():
    with pytest.raises(ApiError) as error:
        protos.parse("Endpoint", {"labels": {"A": ""}})
    assert error.value.message.startswith(
        "List of found errors:\t1.Field: endpoint.display_name; Message: Required field is not "
        "set.\t2.Field: endpoint.labels; Message: There can be no more than 64 labels"
    )
    [detail] = error.value.to_body()["error"]["details"]
    assert detail["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    assert [one["field"] for one in detail["fieldViolations"]] == [
        "endpoint.display_name",
        "endpoint.labels",
    ]


def test_of_an_update_only_the_changed_fields_are_checked():
    body = {"description": "d", "labels": {"Old": "label"}}
    assert refused("Endpoint", body, fields=["description"]) == {}
    assert list(refused("Endpoint", body, fields=["labels"])) == ["endpoint.labels"]
    assert list(refused("Endpoint", {}, fields=["displayName"])) == ["endpoint.display_name"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"labels": ["x"]}, "Invalid value at 'endpoint.labels'"),
        ({"labels": {"a": 5}}, "Invalid value at 'endpoint.labels[0].value' (TYPE_STRING), 5"),
        ({"displayName": {}}, "(TYPE_STRING), Starting an object on a scalar field"),
        ({"trafficSplit": {"1": "all"}}, "at 'endpoint.traffic_split[0].value' (TYPE_INT32)"),
        ({"createTime": "now"}, '(type.googleapis.com/google.protobuf.Timestamp), "now"'),
        ({"encryptionSpec": 1}, "(type.googleapis.com/google.cloud.aiplatform.v1.EncryptionSpec)"),
    ],
)
def test_malformed_bodies_are_refused_in_googles_words(body, message):
    with pytest.raises(ApiError) as error:
        protos.parse("Endpoint", body)
    assert message in error.value.message
