"""A cluster as AI Platform Training's `trainingInput`, of the old config.yaml.

https://cloud.google.com/ai-platform/training/docs/reference/rest/v1/projects.jobs#TrainingInput
"""

from collections.abc import Mapping
from typing import Any

from components.plan_training.findings import Findings, Section
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
from trainer.errors import did_you_mean

KEYS = ("trainingInput",)
IGNORED = ("jobId", "labels", "predictionInput")
# By role: the prefix of its keys.
PREFIXES = {
    "chief": "master",
    "worker": "worker",
    "ps": "parameterServer",
    "evaluator": "evaluator",
}
_COUNTED = ROLES[1:]
_MACHINE_KEYS = (
    *(f"{prefix}Type" for prefix in PREFIXES.values()),
    *(f"{PREFIXES[role]}Count" for role in _COUNTED),
)
# `useChiefInTfConfig` makes no difference: TF_CONFIG says chief, and the trainer reads both names.
_KEYS = (
    *("scaleTier", "useChiefInTfConfig", "args", "scheduling"),
    *(f"{prefix}Config" for prefix in PREFIXES.values()),
    *_MACHINE_KEYS,
)
_IGNORED = (
    *("packageUris", "pythonModule", "hyperparameters", "region", "jobDir", "runtimeVersion"),
    *("pythonVersion", "encryptionConfig", "network", "serviceAccount", "enableWebAccess"),
)
_CONFIG_KEYS = ("imageUri", "acceleratorConfig")
_CONFIG_IGNORED = ("containerCommand", "containerArgs", "tpuTfVersion", "diskConfig")
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


def read(values: Mapping[Any, Any], findings: Findings) -> Json:
    """Return the fields of a Shape."""
    top = Section(values, path="", findings=findings, keys=KEYS, ignored=IGNORED)
    section = top.section("trainingInput", keys=_KEYS, ignored=_IGNORED)
    tiers = (*TIERS, CUSTOM)
    if "scaleTier" not in section:
        allowed = ", ".join(tiers)
        findings.errors.append(f"{section.name('scaleTier')} is missing; allowed are {allowed}")
    tier = section.one_of("scaleTier", tiers, default=CUSTOM)
    machines = section if tier == CUSTOM else _tier_machines(section, tier)
    pools, images = [], []
    for role, prefix in PREFIXES.items():
        config = section.section(f"{prefix}Config", keys=_CONFIG_KEYS, ignored=_CONFIG_IGNORED)
        pools.append(_read_pool(machines, role, config))
        if pools[-1].count:
            images.append((config.name("imageUri"), config.text("imageUri")))
    fields = shape_fields(pools, strategy=read_strategy_flag(section, "args"))
    image = single_image(images, findings)
    if image:
        findings.warnings.append(
            f"imageUri {image}: replicas run `{' '.join(COMMAND)}` in it, so it must contain"
            " this repository; leave it out to use the run's image"
        )
    return fields | {"image": image, "timeout_seconds": _timeout(section)}


def _tier_machines(section: Section, tier: str) -> Section:
    """Return the machines of a tier; a file that also names some has an error for each."""
    own = [key for key in _MACHINE_KEYS if key in section]
    section.findings.errors += [
        f"{section.name(key)} is {section.get(key)!r}, but scaleTier is {tier!r}, which sets its"
        f" machines itself; leave {key} out, or set scaleTier to 'CUSTOM'"
        for key in own
    ]
    return Section(
        TIERS[tier],
        path=section.name(f"scaleTier {tier}"),
        findings=section.findings,
        keys=_MACHINE_KEYS,
    )


def _read_pool(section: Section, role: str, config: Section) -> ReplicaPool:
    prefix = PREFIXES[role]
    type_key, count_key = f"{prefix}Type", f"{prefix}Count"
    count = section.count(count_key) if role in _COUNTED else 1
    if count and type_key not in section:
        section.findings.errors.append(
            f"{section.name(type_key)} is missing; name a machine type, as n1-standard-4"
        )
    if not count and type_key in section and count_key not in section:
        section.findings.warnings.append(
            f"{section.name(type_key)} is {section.get(type_key)!r} without {count_key}, which AI"
            f" Platform read as 0: no replica is added; set {count_key} to add some"
        )
    if not count or type_key not in section:
        return ReplicaPool(role=role, count=count, machine=Machine(type=DEFAULTS.machine))
    machine = _read_machine(section, type_key)
    if "acceleratorConfig" in config:
        machine = _with_accelerator(machine, config)
    return ReplicaPool(role=role, count=count, machine=machine)


def _read_machine(section: Section, key: str) -> Machine:
    """Return the machine of a type; for a name of AI Platform's own, its replacement."""
    name, findings = section.text(key, default=DEFAULTS.machine), section.findings
    if machine := MACHINES.get(name):
        findings.warnings.append(f"{section.name(key)}: {name} is retired and now {machine}")
        return machine
    if "-" not in name:
        hint = did_you_mean(name, MACHINES)
        findings.errors.append(
            f"{section.name(key)} is {name!r};{hint} allowed are Vertex AI's machine types, as"
            f" n1-standard-4, and the retired {', '.join(MACHINES)}"
        )
    return Machine(type=name)


def _with_accelerator(machine: Machine, config: Section) -> Machine:
    section = config.section("acceleratorConfig", keys=("type", "count"))
    if machine.accelerator:
        section.findings.errors.append(
            f"{config.name('acceleratorConfig')}: the machine has {machine.accelerator} already;"
            " leave it out, or name a machine type of Compute Engine, as n1-standard-8"
        )
    gpu = section.text("type")
    if not gpu:
        section.findings.errors.append(
            f"{section.name('type')} is missing; name a GPU, as NVIDIA_TESLA_T4"
        )
        return machine
    count = section.count("count", default=1, at_least=1)
    successor = RETIRED_GPUS.get(gpu, gpu)
    if successor != gpu:
        section.findings.warnings.append(
            f"{section.name('type')}: {gpu} is retired and now {successor}"
        )
    return Machine(type=machine.type, accelerator=Accelerator(type=successor, count=count))


def _timeout(section: Section) -> int:
    scheduling = section.section(
        "scheduling", keys=("maxRunningTime",), ignored=("maxWaitTime", "priority")
    )
    if "maxRunningTime" not in scheduling:
        scheduling.findings.warnings.append(
            f"{scheduling.name('maxRunningTime')} is missing: the job gets"
            f" {DEFAULTS.timeout_seconds}s, not AI Platform's 7 days"
        )
    return scheduling.seconds("maxRunningTime", default=DEFAULTS.timeout_seconds)
