"""A cluster as AI Platform Training's `trainingInput`, of the old config.yaml.

https://cloud.google.com/ai-platform/training/docs/reference/rest/v1/projects.jobs#TrainingInput
"""

from collections.abc import Mapping
from typing import Any

from components.plan_training.findings import Findings, Section
from components.plan_training.machines import (
    RETIRED_GPUS,
    Accelerator,
    Machine,
    gpu_counts,
)
from components.plan_training.shape import DEFAULTS, ReplicaPool
from components.plan_training.spellings import retired
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
_KEYS = (
    *("scaleTier", "useChiefInTfConfig", "args", "scheduling"),
    *(f"{prefix}Type" for prefix in PREFIXES.values()),
    *(f"{prefix}Config" for prefix in PREFIXES.values()),
    *(f"{PREFIXES[role]}Count" for role in _COUNTED),
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


def read(values: Mapping[Any, Any], findings: Findings) -> Json:
    """Return the fields of a Shape."""
    top = Section(values, path="", findings=findings, keys=KEYS, ignored=IGNORED)
    given = top.section("trainingInput", keys=_KEYS, ignored=_IGNORED)
    tiers = (*retired.TIERS, retired.CUSTOM)
    if "scaleTier" not in given:
        allowed = ", ".join(tiers)
        findings.errors.append(f"{given.name('scaleTier')} is missing; allowed are {allowed}")
    tier = given.one_of("scaleTier", tiers, default=retired.CUSTOM)
    configs = {
        role: given.section(f"{prefix}Config", keys=_CONFIG_KEYS, ignored=_CONFIG_IGNORED)
        for role, prefix in PREFIXES.items()
    }
    if tier == retired.CUSTOM:
        pools = [_read_pool(given, role, config) for role, config in configs.items()]
    else:
        pools = _tier_pools(given, tier, configs)
    used = [configs[pool.role] for pool in pools if pool.count]
    images = [(config.name("imageUri"), config.text("imageUri")) for config in used]
    _check_chief_name(given)
    fields = shape_fields(pools, strategy=read_strategy_flag(given, "args"))
    image = single_image(images, findings)
    if image:
        findings.warnings.append(
            f"imageUri {image}: replicas run `{' '.join(COMMAND)}` in it, so it must contain"
            " this repository; leave it out to use the run's image"
        )
    return fields | {"image": image, "timeout_seconds": _timeout(given)}


def _read_pool(given: Section, role: str, config: Section) -> ReplicaPool:
    prefix = PREFIXES[role]
    type_key, count_key = f"{prefix}Type", f"{prefix}Count"
    count = given.count(count_key) if role in _COUNTED else 1
    if count and type_key not in given:
        given.findings.errors.append(
            f"{given.name(type_key)} is missing; name a machine type, as n1-standard-4"
        )
    if not count:
        if type_key in given and count_key not in given:
            given.findings.warnings.append(
                f"{given.name(type_key)} is {given.get(type_key)!r} without {count_key}, which AI"
                f" Platform read as 0: no replica is added; set {count_key} to add some"
            )
        return ReplicaPool(role=role, count=0, machine=Machine(type=DEFAULTS.machine))
    name = given.text(type_key, default=DEFAULTS.machine)
    machine = _machine(name, field=given.name(type_key), findings=given.findings)
    if "acceleratorConfig" in config:
        machine = _with_accelerator(machine, name, config)
    return ReplicaPool(role=role, count=count, machine=machine)


def _machine(name: str, *, field: str, findings: Findings) -> Machine:
    """Return the machine with that name; for a name of AI Platform's own, its replacement."""
    if name in retired.MACHINES:
        machine = retired.MACHINES[name]
        findings.warnings.append(f"{field}: {name} ({machine.was}) is now {machine.today}")
        return machine.today
    if "-" not in name:
        hint = did_you_mean(name, retired.MACHINES)
        findings.errors.append(
            f"{field} is {name!r};{hint} allowed are Vertex AI's machine types, as n1-standard-4,"
            f" and the retired {', '.join(retired.MACHINES)}"
        )
    return Machine(type=name)


def _with_accelerator(machine: Machine, name: str, config: Section) -> Machine:
    if name in retired.MACHINES:
        config.findings.errors.append(
            f"{config.name('acceleratorConfig')} needs a machine type of Compute Engine, as"
            f" n1-standard-8, not {name!r}"
        )
        return machine
    section = config.section("acceleratorConfig", keys=("type", "count"))
    if "type" not in section:
        section.findings.errors.append(
            f"{section.name('type')} is missing; name a GPU, as NVIDIA_TESLA_T4"
        )
        return machine
    kind = section.text("type")
    count = section.count("count", default=1, at_least=1)
    if kind in RETIRED_GPUS:
        today = RETIRED_GPUS[kind]
        allowed = gpu_counts(machine.type, today) or [count]
        gpus = Accelerator(
            type=today, count=next((number for number in allowed if number >= count), allowed[-1])
        )
        section.findings.warnings.append(f"{section.name('type')}: {count} {kind} is now {gpus}")
    else:
        gpus = Accelerator(type=kind, count=count)
    return Machine(type=machine.type, accelerator=gpus)


def _tier_pools(given: Section, tier: str, configs: Mapping[str, Section]) -> list[ReplicaPool]:
    only_custom = [key for key in _KEYS if key.endswith(("Type", "Count"))]
    for key in only_custom:
        if key in given:
            given.findings.errors.append(
                f"{given.name(key)} is {given.get(key)!r}, but scaleTier is {tier!r}, which sets"
                f" its machines itself; leave {key} out, or set scaleTier to 'CUSTOM'"
            )
    for config in configs.values():
        if "acceleratorConfig" in config:
            given.findings.errors.append(
                f"{config.name('acceleratorConfig')} is only for scaleTier 'CUSTOM', and scaleTier"
                f" is {tier!r}"
            )
    cluster, field = retired.TIERS[tier], f"{given.name('scaleTier')} {tier}"
    roles = [
        ("chief", cluster.master, 1),
        ("worker", cluster.worker, cluster.num_workers),
        ("ps", cluster.server, cluster.num_servers),
    ]
    return [
        ReplicaPool(
            role=role,
            count=count,
            machine=_machine(name, field=f"{field}, {role}", findings=given.findings),
        )
        for role, name, count in roles
        if count
    ]


def _check_chief_name(given: Section) -> None:
    given.flag("useChiefInTfConfig")
    if given.get("useChiefInTfConfig") is False:
        given.findings.warnings.append(
            f"{given.name('useChiefInTfConfig')} is false: TF_CONFIG still says chief, where AI"
            " Platform said master; the trainer reads both"
        )


def _timeout(given: Section) -> int:
    scheduling = given.section(
        "scheduling", keys=("maxRunningTime",), ignored=("maxWaitTime", "priority")
    )
    if "maxRunningTime" not in scheduling:
        given.findings.warnings.append(
            f"{scheduling.name('maxRunningTime')} is missing: the job gets"
            f" {DEFAULTS.timeout_seconds}s, not AI Platform's 7 days"
        )
    return scheduling.seconds("maxRunningTime", default=DEFAULTS.timeout_seconds)
