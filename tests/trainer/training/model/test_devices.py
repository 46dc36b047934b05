"""Devices and strategy by the number of GPUs, with GPUs that are not here."""

import pytest
import tensorflow as tf

from trainer.cluster.tf_config import Cluster
from trainer.runtime.cores import num_cores
from trainer.strategies.collective import make_resolver
from trainer.training.model.devices import (
    count_parts,
    open_devices,
    resolve_strategy,
    split_cpu,
)


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
    assert make_resolver(cluster, rank=0).num_accelerators() == {"GPU": 1}


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


@pytest.fixture
def four_cores(monkeypatch):
    """Reports four cores and no GPU; returns the numbers of threads that are set."""
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _kind: [])
    monkeypatch.setattr("trainer.runtime.cores.machine_cores", lambda: 4)
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    threads = {}
    for name in ("inter", "intra"):
        setter = f"set_{name}_op_parallelism_threads"
        monkeypatch.setattr(
            tf.config.threading, setter, lambda count, name=name: threads.update({name: count})
        )
    return threads


@pytest.mark.parametrize(
    ("part_size", "batch_size", "num_trainers", "expected"),
    [
        (16, 128, 1, 4),  # a part for each core
        (16, 48, 1, 3),  # parts that are large enough
        (16, 48, 2, 1),  # of this replica's half of the batch
        (128, 64, 1, 1),  # at least one
        (0, 128, 1, None),  # a model with batch normalization
    ],
)
def test_the_cores_share_a_batch(four_cores, part_size, batch_size, num_trainers, expected):
    strategy = "single" if num_trainers == 1 else "multi_worker_mirrored"
    sizes = {"part_size": part_size, "batch_size": batch_size}
    assert count_parts(strategy, **sizes, num_trainers=num_trainers) == expected


def test_a_replica_uses_its_share_of_the_cores(four_cores, monkeypatch):
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "2")
    assert count_parts("single", part_size=16, batch_size=128, num_trainers=1) == 2
    assert split_cpu(2) == ["/device:CPU:0"] * 2
    assert four_cores == {"inter": 2, "intra": 1}


def test_threads_of_a_tensorflow_that_is_in_use_are_not_set(four_cores, monkeypatch, caplog):
    def refuse(_count):
        raise RuntimeError("cannot be modified after initialization")

    monkeypatch.setattr(tf.config.threading, "set_intra_op_parallelism_threads", refuse)
    assert split_cpu(2) == ["/device:CPU:0"]
    assert "uses TensorFlow when it is imported" in caplog.text


def test_a_share_that_is_given_is_not_divided_again(four_cores, monkeypatch):
    assert [num_cores(num_sharing=number) for number in (1, 2, 8)] == [4, 2, 1]
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "2")
    assert num_cores(num_sharing=2) == 2


def test_other_strategies_and_gpus_do_not_share_a_batch_so(four_cores, monkeypatch):
    sizes = {"part_size": 16, "batch_size": 128, "num_trainers": 1}
    assert count_parts("parameter_server", **sizes) is None
    assert count_parts("mirrored", **sizes) is None
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _kind: ["a GPU"])
    assert count_parts("single", **sizes) is None
