"""AI Platform Training's retired names of machines and clusters, and their replacements.

https://cloud.google.com/ai-platform/training/docs/machine-types
"""

from dataclasses import dataclass

from components.plan_training.machines import Accelerator, Machine


@dataclass(frozen=True, kw_only=True)
class Retired:
    """A retired machine, and the nearest machine on Vertex AI."""

    was: str
    today: Machine


@dataclass(frozen=True, kw_only=True)
class Tier:
    """A named cluster; its machines have retired names."""

    master: str
    worker: str = ""
    num_workers: int = 0
    server: str = ""
    num_servers: int = 0


def _retired(was: str, machine: str, *, gpu: str = "", count: int = 0) -> Retired:
    gpus = Accelerator(type=gpu, count=count) if gpu else None
    return Retired(was=was, today=Machine(type=machine, accelerator=gpus))


T4, P100, V100 = "NVIDIA_TESLA_T4", "NVIDIA_TESLA_P100", "NVIDIA_TESLA_V100"
MACHINES = {
    "standard": _retired("4 vCPUs", "n1-standard-4"),
    "large_model": _retired("8 vCPUs, much memory", "n1-highmem-8"),
    "complex_model_s": _retired("n1-highcpu-8, which Vertex AI does not have", "n1-standard-8"),
    "complex_model_m": _retired("16 vCPUs", "n1-highcpu-16"),
    "complex_model_l": _retired("32 vCPUs", "n1-highcpu-32"),
    "standard_gpu": _retired("8 vCPUs, 1 K80", "n1-standard-8", gpu=T4, count=1),
    "complex_model_m_gpu": _retired("16 vCPUs, 4 K80", "n1-standard-16", gpu=T4, count=4),
    "complex_model_l_gpu": _retired("32 vCPUs, 8 K80", "n1-standard-32", gpu=T4, count=4),
    "standard_p100": _retired("8 vCPUs, 1 P100", "n1-standard-8", gpu=P100, count=1),
    "complex_model_m_p100": _retired("16 vCPUs, 4 P100", "n1-standard-16", gpu=P100, count=4),
    "standard_v100": _retired("8 vCPUs, 1 V100", "n1-standard-8", gpu=V100, count=1),
    "large_model_v100": _retired("8 vCPUs, 1 V100", "n1-highmem-8", gpu=V100, count=1),
    "complex_model_m_v100": _retired("16 vCPUs, 4 V100", "n1-standard-16", gpu=V100, count=4),
    "complex_model_l_v100": _retired("32 vCPUs, 8 V100", "n1-standard-32", gpu=V100, count=8),
    "cloud_tpu": _retired(
        "8 cores of a TPU v2, on which this trainer does not run",
        "a2-highgpu-1g",
        gpu="NVIDIA_TESLA_A100",
        count=1,
    ),
}
TIERS = {
    "BASIC": Tier(master="standard"),
    "BASIC_GPU": Tier(master="standard_gpu"),
    "STANDARD_1": Tier(
        master="complex_model_s",
        worker="complex_model_s",
        num_workers=4,
        server="standard",
        num_servers=3,
    ),
    "PREMIUM_1": Tier(
        master="complex_model_m",
        worker="complex_model_m",
        num_workers=19,
        server="large_model",
        num_servers=11,
    ),
}
CUSTOM = "CUSTOM"
