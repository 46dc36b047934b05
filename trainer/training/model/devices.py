"""The devices of a replica: its GPUs, else its CPU, as several logical devices if requested."""

import contextlib
import logging
import pathlib

import tensorflow as tf

from trainer.errors import ConfigError
from trainer.runtime.cores import machine_cores, num_cores

logger = logging.getLogger(__name__)

# While one thread waits for the gradients of other replicas, another must be free.
_LEAST_INTER_OP_THREADS = 2
# Other CPUs emulate bfloat16, slowly.
_BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16"}
_BFLOAT16_CAPABILITY = (8, 0)


def resolve_strategy(strategy: str, *, requested: str, cpu_devices: int) -> str:
    """Return the strategy; `auto` with several devices is `mirrored` instead of `single`."""
    if requested != "auto" or strategy != "single":
        return strategy
    is_many = max(cpu_devices, len(tf.config.list_physical_devices("GPU"))) > 1
    return "mirrored" if is_many else "single"


def has_bfloat16(*, cpuinfo: str = "/proc/cpuinfo") -> bool:
    """Return True if bfloat16 is fast on all GPUs of this replica, or else on its CPU."""
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
        unknown = (0, 0)
        capabilities = [detail.get("compute_capability", unknown) for detail in details]
        return min(capabilities) >= _BFLOAT16_CAPABILITY
    try:
        flags = set(pathlib.Path(cpuinfo).read_text().split())
    except OSError:
        return False
    return bool(flags & _BFLOAT16_FLAGS)


def count_parts(strategy: str, *, part_size: int, batch_size: int, num_trainers: int) -> int | None:
    """Return the parts of a batch that the cores of this replica compute at the same time.

    None if all cores compute the whole batch together.
    """
    is_possible = strategy in ("single", "multi_worker_mirrored") and part_size
    if not is_possible or tf.config.list_physical_devices("GPU"):
        return None
    return max(1, min(num_cores(), batch_size // num_trainers // part_size))


def open_devices(strategy: str, *, cpu_devices: int) -> list[str]:
    """Set up the devices, before any other use of TensorFlow, and return their names.

    Raises:
        ConfigError: the strategy cannot use these devices; the message names the flag to change.
    """
    if cpu_devices > 1 and strategy in ("single", "parameter_server"):
        raise ConfigError(
            f"--cpu-devices: {cpu_devices} devices cannot be used by --strategy {strategy}; use"
            " mirrored or multi_worker_mirrored"
        )
    with contextlib.suppress(RuntimeError):  # it has been used: `check` loads the file before
        tf.config.threading.set_inter_op_parallelism_threads(_inter_op_threads())
    num_gpus = len(tf.config.list_physical_devices("GPU"))
    if num_gpus and cpu_devices == 1:
        # Without it two runs differ, and a resumed run differs from an uninterrupted one.
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


def split_cpu(num_parts: int) -> list[str]:
    """Let the CPU compute as many parts of a batch, if threads can be set still; return devices.

    A thread executes each operation: a batch takes a fifth less time than if several threads share
    the work of one operation (`benchmarks.train_single`).
    """
    try:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        threads = max(num_cores(), _LEAST_INTER_OP_THREADS)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
    except RuntimeError:
        logger.warning(
            "--part-size is ignored, so steps may take longer: the workload's file uses TensorFlow"
            " when it is imported, and threads are set before; create tensors and metrics in its"
            " functions"
        )
        return ["/device:CPU:0"]
    return ["/device:CPU:0"] * num_parts


def _inter_op_threads() -> int:
    """Return the number to set; 0 leaves it to TensorFlow, which chooses 1 on a single core."""
    configured = tf.config.threading.get_inter_op_parallelism_threads()
    is_one = configured == 1 or (not configured and machine_cores() == 1)
    return _LEAST_INTER_OP_THREADS if is_one else configured
