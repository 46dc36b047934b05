"""AI Platform Training's retired names of machines and clusters, and their replacements.

https://cloud.google.com/ai-platform/training/docs/machine-types
"""

from components.plan_training.machines import Accelerator, Machine

CUSTOM = "CUSTOM"
# The keys of `trainingInput` that a scale tier stands for.
TIERS = {
    "BASIC": {"masterType": "standard"},
    "BASIC_GPU": {"masterType": "standard_gpu"},
    "STANDARD_1": {
        "masterType": "complex_model_s",
        "workerType": "complex_model_s",
        "workerCount": 4,
        "parameterServerType": "standard",
        "parameterServerCount": 3,
    },
    "PREMIUM_1": {
        "masterType": "complex_model_m",
        "workerType": "complex_model_m",
        "workerCount": 19,
        "parameterServerType": "large_model",
        "parameterServerCount": 11,
    },
}


def _with_gpus(machine: str, gpu: str, count: int = 1) -> Machine:
    return Machine(type=machine, accelerator=Accelerator(type=gpu, count=count))


# The machines named `_gpu` had K80 GPUs, which are retired as well.
MACHINES = {
    "standard": Machine(type="n1-standard-4"),
    "large_model": Machine(type="n1-highmem-8"),
    "complex_model_s": Machine(type="n1-standard-8"),
    "complex_model_m": Machine(type="n1-highcpu-16"),
    "complex_model_l": Machine(type="n1-highcpu-32"),
    "standard_gpu": _with_gpus("n1-standard-8", "NVIDIA_TESLA_T4"),
    "complex_model_m_gpu": _with_gpus("n1-standard-16", "NVIDIA_TESLA_T4", 4),
    "complex_model_l_gpu": _with_gpus("n1-standard-32", "NVIDIA_TESLA_T4", 4),
    "standard_p100": _with_gpus("n1-standard-8", "NVIDIA_TESLA_P100"),
    "complex_model_m_p100": _with_gpus("n1-standard-16", "NVIDIA_TESLA_P100", 4),
    "standard_v100": _with_gpus("n1-standard-8", "NVIDIA_TESLA_V100"),
    "large_model_v100": _with_gpus("n1-highmem-8", "NVIDIA_TESLA_V100"),
    "complex_model_m_v100": _with_gpus("n1-standard-16", "NVIDIA_TESLA_V100", 4),
    "complex_model_l_v100": _with_gpus("n1-standard-32", "NVIDIA_TESLA_V100", 8),
}
