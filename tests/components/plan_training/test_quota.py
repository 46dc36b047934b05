"""Quota that clusters need."""

import pytest

from components.plan_training.machines import Accelerator, Machine
from components.plan_training.prices import quota_needed
from components.plan_training.shape import Shape

T4 = Accelerator(type="NVIDIA_TESLA_T4", count=2)


@pytest.mark.parametrize(
    ("shape", "needed"),
    [
        (Shape(), {"custom_model_training_cpus": 4}),
        (
            Shape(strategy="parameter_server", workers=2, parameter_servers=1, spot=True),
            {"custom_model_training_preemptible_cpus": 16},
        ),
        (
            Shape(strategy="multi_worker_mirrored", workers=2, accelerator=T4),
            {"custom_model_training_cpus": 12, "custom_model_training_nvidia_t4_gpus": 6},
        ),
        (
            Shape(machine="e2-standard-8", machines={"chief": Machine(type="n2-standard-4")}),
            {"custom_model_training_n2_cpus": 4},
        ),
        (
            Shape(
                machine="a2-highgpu-1g",
                accelerator=Accelerator(type="NVIDIA_TESLA_A100", count=1),
            ),
            {"custom_model_training_nvidia_a100_gpus": 1},
        ),
        (Shape(persistent_resource="pool-1"), {}),
    ],
    ids=["one", "spot pools", "gpus", "another family", "built-in gpus", "started already"],
)
def test_quota_is_the_sum_over_the_pools(shape, needed):
    assert quota_needed(shape) == needed
