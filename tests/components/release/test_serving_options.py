"""Machines of the endpoint: settings, and the request that they become."""

import pytest

from components.release.options import ServingOptions
from trainer.errors import ConfigError

pytestmark = pytest.mark.fast

PREFIX = "aiplatform.googleapis.com/prediction/online"


def test_the_default_is_one_machine_of_the_default_type():
    assert ServingOptions().resources == {
        "machineSpec": {"machineType": "n1-standard-4"},
        "minReplicaCount": 1,
        "maxReplicaCount": 1,
    }


def test_all_settings_reach_the_request():
    text = """{"machine": "n1-standard-8", "accelerator": {"type": "NVIDIA_TESLA_T4", "count": 2},
    "min_replicas": 2, "max_replicas": 5, "cpu_target": 70, "accelerator_target": 80}"""

    assert ServingOptions.from_json(text).resources == {
        "machineSpec": {
            "machineType": "n1-standard-8",
            "acceleratorType": "NVIDIA_TESLA_T4",
            "acceleratorCount": 2,
        },
        "minReplicaCount": 2,
        "maxReplicaCount": 5,
        "autoscalingMetricSpecs": [
            {"metricName": f"{PREFIX}/cpu/utilization", "target": 70},
            {"metricName": f"{PREFIX}/accelerator/duty_cycle", "target": 80},
        ],
    }


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param(
            {"min_replicas": 3, "max_replicas": 2},
            "serving.max_replicas is 2; it must be at least serving.min_replicas, 3",
            id="most below least",
        ),
        pytest.param({"replicas": 3}, "serving has no 'replicas'; did you mean", id="unknown"),
        pytest.param(
            {"machine": "g2-standard-8"},
            "serving.accelerator is missing: g2-standard-8 comes with 1 NVIDIA_L4",
            id="built-in GPU",
        ),
    ],
)
def test_settings_that_vertex_would_refuse_are_named(values, message):
    with pytest.raises(ConfigError, match=message):
        ServingOptions(**values)
