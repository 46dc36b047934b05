"""Devices and strategy by the number of GPUs, with GPUs that are not here."""

import pytest

from trainer.cluster.tf_config import Cluster
from trainer.runtime.tensorflow_logs import import_tensorflow

import_tensorflow()

import tensorflow as tf  # noqa: E402

from trainer.strategies.collective import _resolver  # noqa: E402
from trainer.training.model.devices import open_devices, resolve_strategy  # noqa: E402


@pytest.fixture
def two_gpus(monkeypatch):
    """Reports two GPUs; fails if a call would initialise TensorFlow."""
    config = tf.config
    monkeypatch.setattr(config, "list_physical_devices", lambda _kind: ["one", "other"])
    monkeypatch.setattr(config, "list_logical_devices", lambda _kind: pytest.fail("initialised"))
    monkeypatch.setattr(config.threading, "set_inter_op_parallelism_threads", lambda _count: None)
    calls = []
    monkeypatch.setattr(config.experimental, "enable_op_determinism", lambda: calls.append(True))
    return calls


def test_a_replica_has_one_device_in_the_all_reduce(two_gpus):
    cluster = Cluster(task_type="worker", addresses={"worker": ("127.0.0.1:1", "127.0.0.1:2")})
    assert _resolver(cluster, rank=0).num_accelerators() == {"GPU": 1}


@pytest.mark.parametrize(
    ("strategy", "names"),
    [
        ("single", ["/device:GPU:0"]),
        ("mirrored", ["/device:GPU:0", "/device:GPU:1"]),
        ("multi_worker_mirrored", ["/device:GPU:0", "/device:GPU:1"]),
    ],
)
def test_every_gpu_is_used_deterministically(two_gpus, strategy, names):
    assert open_devices(strategy, cpu_devices=1) == names
    assert two_gpus == [True]


def test_several_gpus_are_mirrored_unless_single_is_requested(two_gpus):
    assert resolve_strategy("single", requested="auto", cpu_devices=1) == "mirrored"
    assert resolve_strategy("single", requested="single", cpu_devices=1) == "single"
