"""Traffic splits when models are deployed and undeployed."""

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


def test_model_with_traffic_is_not_undeployed():
    with pytest.raises(ApiError, match="50% of the traffic") as error:
        traffic.after_undeploy(endpoint(d1=50, d2=50), deployed_id="1", requested={})
    assert error.value.status == "FAILED_PRECONDITION"


@pytest.mark.parametrize(
    "requested", [{"0": 99}, {"0": 50, "7": 50}, {"0": 101}, {"0": 150, "1": -50}]
)
def test_bad_split_is_refused(requested):
    with pytest.raises(ApiError, match="trafficSplit"):
        traffic.after_deploy(endpoint(d1=100), new_id="9", requested=requested)
