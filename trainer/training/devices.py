"""The devices that a replica computes on: its GPUs, or else its CPU, cut in parts if asked to."""

import os
import pathlib

import tensorflow as tf

from trainer.config.settings import ConfigError

# The sum of gradients waits for the other replicas on a thread that must not be the only one.
_LEAST_INTER_OP_THREADS = 2
# Other CPUs can only imitate it.
_BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16"}
_BFLOAT16_CAPABILITY = (8, 0)


def resolve_strategy(strategy: str, *, requested: str, cpu_devices: int) -> str:
    """Returns `mirrored` instead of an automatic `single` where there are several devices."""
    if requested != "auto" or strategy != "single":
        return strategy
    is_many = max(cpu_devices, len(tf.config.list_physical_devices("GPU"))) > 1
    return "mirrored" if is_many else "single"


def has_bfloat16(*, cpuinfo: str = "/proc/cpuinfo") -> bool:
    """Returns whether bfloat16 is fast on this replica's GPUs, or else on its CPU."""
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
        none = (0, 0)
        return all(one.get("compute_capability", none) >= _BFLOAT16_CAPABILITY for one in details)
    try:
        flags = set(pathlib.Path(cpuinfo).read_text().split())
    except OSError:
        return False
    return bool(flags & _BFLOAT16_FLAGS)


def open_devices(strategy: str, *, cpu_devices: int) -> list[str]:
    """Makes the devices ready, before any other use of TensorFlow, and returns their names.

    Raises:
        ConfigError: the strategy cannot use them; says which flag to change.
    """
    if cpu_devices > 1 and strategy in ("single", "parameter_server"):
        raise ConfigError(
            f"--cpu-devices: {cpu_devices} devices cannot be used by --strategy {strategy}; use"
            " mirrored or multi_worker_mirrored"
        )
    tf.config.threading.set_inter_op_parallelism_threads(_inter_op_threads())
    num_gpus = len(tf.config.list_physical_devices("GPU"))
    if num_gpus and cpu_devices == 1:
        # Else two runs differ, and so would one that was killed and has gone on.
        tf.config.experimental.enable_op_determinism()
        return [f"/device:GPU:{index}" for index in range(1 if strategy == "single" else num_gpus)]
    if strategy == "mirrored" and cpu_devices == 1:
        raise ConfigError(
            "--strategy mirrored needs two or more GPUs, but this machine has none; use --strategy"
            " single, or --cpu-devices 2 to try it on the CPU"
        )
    if cpu_devices > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        parts = [tf.config.LogicalDeviceConfiguration() for _ in range(cpu_devices)]
        tf.config.set_logical_device_configuration(cpu, parts)
    return [f"/device:CPU:{index}" for index in range(cpu_devices)]


def _inter_op_threads() -> int:
    """Returns what to set; 0 leaves the choice to TensorFlow, which takes one for one core."""
    given = tf.config.threading.get_inter_op_parallelism_threads()
    is_one = given == 1 or (not given and len(os.sched_getaffinity(0)) == 1)
    return _LEAST_INTER_OP_THREADS if is_one else given
