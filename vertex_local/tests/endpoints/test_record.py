"""Traffic splits when models are deployed and undeployed, and resources of deployed models."""

import pytest

from vertex_local.endpoints import record as traffic
from vertex_local.errors import ApiError

pytestmark = pytest.mark.fast


def endpoint(**split):
    ids = [{"id": key.removeprefix("d")} for key in split]
    return {
        "deployedModels": ids,
        "trafficSplit": {key.removeprefix("d"): value for key, value in split.items()},
    }


@pytest.mark.parametrize(
    ("before", "requested", "after"),
    [
        (endpoint(), {}, {"9": 100}),
        (endpoint(), {"0": 100}, {"9": 100}),
        (endpoint(d1=100), {}, {"1": 100}),
        (endpoint(d1=100), {"0": 100}, {"9": 100}),
        (endpoint(d1=100), {"0": 10, "1": 90}, {"9": 10, "1": 90}),
    ],
)
def test_split_after_deploying(before, requested, after):
    assert traffic.after_deploy(before, new_id="9", requested=requested) == after


@pytest.mark.parametrize(
    ("before", "requested", "after"),
    [
        (endpoint(d1=100), {}, {}),
        (endpoint(d1=100, d2=0), {"1": 100}, {"1": 100}),
        (endpoint(d1=50, d2=50), {"1": 100}, {"1": 100}),
        (endpoint(d1=50, d2=50), {"1": 100, "2": 0}, {"1": 100}),
        (endpoint(d1=100, d2=0), {}, {"1": 100}),
    ],
)
def test_split_after_undeploying(before, requested, after):
    gone = before["deployedModels"][-1]["id"]
    assert traffic.after_undeploy(before, deployed_id=gone, requested=requested) == after


@pytest.mark.parametrize(
    "requested", [{"0": 99}, {"0": 50, "7": 50}, {"0": -1}, {"0": 150, "1": -50}]
)
def test_bad_split_is_refused(requested):
    with pytest.raises(ApiError, match="trafficSplit"):
        traffic.after_deploy(endpoint(d1=100), new_id="9", requested=requested)


GPU = {"acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1}


def deployed(**resources):
    return {"id": "1", "dedicatedResources": resources}


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        pytest.param({}, "minReplicaCount is 0", id="no least"),
        pytest.param({"minReplicaCount": 3, "maxReplicaCount": 2}, "maxReplicaCount 2", id="most"),
    ],
)
def test_resources_that_vertex_refuses_are_refused(resources, message):
    with pytest.raises(ApiError, match=message):
        traffic.with_resources(deployed(**resources))


def test_the_most_replicas_are_the_least_unless_given():
    found = traffic.with_resources(deployed(minReplicaCount=2, machineSpec=GPU))

    assert found["dedicatedResources"]["maxReplicaCount"] == 2
    assert traffic.with_resources({"id": "1"}) == {"id": "1"}


def mutated(mask, before, **after):
    endpoint = {"name": "e", "deployedModels": [{"id": "0"}, before]}
    changed = traffic.mutate(endpoint, deployed(**after), mask=mask)
    assert endpoint["deployedModels"] == [{"id": "0"}, changed]
    return changed["dedicatedResources"]


def test_a_mutation_changes_the_fields_of_its_mask():
    before = deployed(minReplicaCount=1, maxReplicaCount=1, autoscalingMetricSpecs=[{"target": 9}])
    mask = "dedicatedResources.maxReplicaCount,dedicatedResources.autoscalingMetricSpecs"

    found = mutated(mask, before, minReplicaCount=7, maxReplicaCount=4)

    assert found == {"minReplicaCount": 1, "maxReplicaCount": 4}, "a field left out is cleared"


@pytest.mark.parametrize(
    ("mask", "after", "message"),
    [
        ("dedicatedResources.machineSpec", {}, "updateMask is 'dedicatedResources.machineSpec'"),
        ("", {}, "updateMask is ''"),
        ("dedicatedResources.minReplicaCount", {"minReplicaCount": 2}, "maxReplicaCount 1"),
    ],
)
def test_a_mutation_that_vertex_refuses_is_refused(mask, after, message):
    with pytest.raises(ApiError, match=message):
        mutated(mask, deployed(minReplicaCount=1, maxReplicaCount=1), **after)


def test_a_mutation_of_a_model_that_is_not_deployed_is_not_found():
    with pytest.raises(ApiError, match=r'deployedModel\.id "1" of e'):
        traffic.mutate({"name": "e"}, deployed(), mask="dedicatedResources.minReplicaCount")
