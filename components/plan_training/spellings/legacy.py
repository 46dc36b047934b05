"""A cluster as AI Platform Training's `trainingInput`, of the old config.yaml.

https://cloud.google.com/ai-platform/training/docs/reference/rest/v1/projects.jobs#TrainingInput
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from components.plan_training.findings import (
    Count,
    FilePart,
    Findings,
    PositiveCount,
    Seconds,
    camel_case,
)
from components.plan_training.machines import RETIRED_GPUS, Accelerator, Machine
from components.plan_training.shape import DEFAULTS, ReplicaPool
from components.plan_training.spellings.pools import (
    COMMAND,
    read_strategy_flag,
    shape_fields,
    single_image,
)
from trainer import Json
from trainer.cluster.roles import ROLES
from trainer.config.settings import Name, OneOf, setting
from trainer.errors import did_you_mean

KEYS = ("trainingInput",)
# By role: the prefix of its keys.
PREFIXES = {
    "chief": "master",
    "worker": "worker",
    "ps": "parameterServer",
    "evaluator": "evaluator",
}
_COUNTED = ROLES[1:]
NAMES = {
    "strategy": "--strategy in trainingInput.args",
    "workers": "trainingInput.workerCount",
    "parameter_servers": "trainingInput.parameterServerCount",
    "evaluators": "trainingInput.evaluatorCount",
} | {
    f"{key}.{role}": f"trainingInput.{prefix}{name}"
    for role, prefix in PREFIXES.items()
    for key, name in (("machine", "Type"), ("accelerator", "Config.acceleratorConfig"))
}
CUSTOM = "CUSTOM"
# The keys of `trainingInput` that a scale tier stands for.
TIERS: dict[str, dict[str, Any]] = {
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


class AcceleratorConfig(FilePart):
    """GPUs of a machine."""

    type: Name = setting("GPU, as NVIDIA_TESLA_T4")
    count: PositiveCount = 1


class RoleConfig(FilePart):
    """Image and GPUs of the replicas of a role."""

    ignored = ("containerCommand", "containerArgs", "tpuTfVersion", "diskConfig")
    image_uri: str = ""
    accelerator_config: AcceleratorConfig | None = None


class Limits(FilePart):
    """Time limit."""

    ignored = ("maxWaitTime", "priority")
    max_running_time: Seconds | None = None


class TrainingInput(FilePart):
    """A cluster: a tier, or the machines of each role.

    `useChiefInTfConfig` makes no difference: the trainer reads both names of a chief.
    """

    ignored = (
        "packageUris",
        "pythonModule",
        "hyperparameters",
        "region",
        "jobDir",
        "runtimeVersion",
        "pythonVersion",
        "encryptionConfig",
        "network",
        "serviceAccount",
        "enableWebAccess",
    )
    scale_tier: Annotated[str, OneOf((*TIERS, CUSTOM))] = setting("tier of the cluster")
    use_chief_in_tf_config: Any = None
    args: list[str] = []  # noqa: RUF012 - pydantic copies it
    scheduling: Limits = Limits()
    master_type: str = ""
    worker_type: str = ""
    parameter_server_type: str = ""
    evaluator_type: str = ""
    worker_count: Count | None = None
    parameter_server_count: Count | None = None
    evaluator_count: Count | None = None
    master_config: RoleConfig = RoleConfig()
    worker_config: RoleConfig = RoleConfig()
    parameter_server_config: RoleConfig = RoleConfig()
    evaluator_config: RoleConfig = RoleConfig()


class LegacyFile(FilePart):
    """The old config.yaml."""

    ignored = ("jobId", "labels", "predictionInput")
    training_input: TrainingInput


def read(values: Mapping[Any, Any], findings: Findings) -> Json:
    """Return the fields of a Shape."""
    file = LegacyFile.read(values, findings)
    if file is None:
        return {}
    given = machines = file.training_input
    tier = given.scale_tier
    if tier != CUSTOM:
        findings.errors += _of_tier(given)
        machines = TrainingInput(scale_tier=CUSTOM, **TIERS[tier])
    pools, images = [], []
    for role, prefix in PREFIXES.items():
        config = getattr(given, f"{snake_case(prefix)}_config")
        pools.append(_read_pool(machines, role, config, findings))
        if pools[-1].count:
            images.append((f"trainingInput.{prefix}Config.imageUri", config.image_uri))
    strategy = read_strategy_flag(given.args, "trainingInput.args", findings)
    image = single_image(images, findings)
    if image:
        findings.warnings.append(
            f"imageUri {image}: replicas run `{' '.join(COMMAND)}` in it, so it must contain"
            " this repository; leave it out to use the run's image"
        )
    seconds = given.scheduling.max_running_time
    if seconds is None:
        findings.warnings.append(
            f"trainingInput.scheduling.maxRunningTime is missing: the job gets"
            f" {DEFAULTS.timeout_seconds}s, not AI Platform's 7 days"
        )
    timeout = seconds or DEFAULTS.timeout_seconds
    return shape_fields(pools, strategy=strategy) | {"image": image, "timeout_seconds": timeout}


def snake_case(prefix: str) -> str:
    """Return `parameter_server` for `parameterServer`."""
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", prefix)


def _of_tier(given: TrainingInput) -> list[str]:
    """Return an error for each machine that a file names beside a tier."""
    return [
        f"trainingInput.{camel_case(name)} is {value!r}, but scaleTier is {given.scale_tier!r},"
        f" which sets its machines itself; leave it out, or set scaleTier to"
        " 'CUSTOM'"
        for name, value in given
        if name in given.model_fields_set and name.endswith(("_type", "_count"))
    ]


def _read_pool(
    given: TrainingInput, role: str, config: RoleConfig, findings: Findings
) -> ReplicaPool:
    prefix = PREFIXES[role]
    field, count_key = f"trainingInput.{prefix}Type", f"{prefix}Count"
    name = getattr(given, f"{snake_case(prefix)}_type")
    stated = getattr(given, f"{snake_case(prefix)}_count") if role in _COUNTED else 1
    count = stated or 0
    if count and not name:
        findings.errors.append(f"{field} is missing; name a machine type, as n1-standard-4")
    if name and stated is None:
        findings.warnings.append(
            f"{field} is {name!r} without {count_key}, which AI Platform read as 0: no replica is"
            f" added; set {count_key} to add some"
        )
    if not count or not name:
        return ReplicaPool(role=role, count=count, machine=Machine(type=DEFAULTS.machine))
    machine = _read_machine(name, field, findings)
    if gpus := config.accelerator_config:
        place = f"trainingInput.{prefix}Config.acceleratorConfig"
        machine = _with_accelerator(machine, gpus, place, findings)
    return ReplicaPool(role=role, count=count, machine=machine)


def _read_machine(name: str, field: str, findings: Findings) -> Machine:
    """Return the machine of a type; for a name of AI Platform's own, its replacement."""
    if machine := MACHINES.get(name):
        findings.warnings.append(f"{field}: {name} is retired and now {machine}")
        return machine
    if "-" not in name:
        hint = did_you_mean(name, MACHINES)
        findings.errors.append(
            f"{field} is {name!r};{hint} allowed are Vertex AI's machine types, as"
            f" n1-standard-4, and the retired {', '.join(MACHINES)}"
        )
        return Machine(type=DEFAULTS.machine)
    return Machine.model_construct(type=name)


def _with_accelerator(
    machine: Machine, gpus: AcceleratorConfig, place: str, findings: Findings
) -> Machine:
    if machine.accelerator:
        findings.errors.append(
            f"{place}: the machine has {machine.accelerator} already; leave it out, or name a"
            " machine type of Compute Engine, as n1-standard-8"
        )
    successor = RETIRED_GPUS.get(gpus.type, gpus.type)
    if successor != gpus.type:
        findings.warnings.append(f"{place}.type: {gpus.type} is retired and now {successor}")
    accelerator = Accelerator(type=successor, count=gpus.count)
    return Machine.model_construct(type=machine.type, accelerator=accelerator)
