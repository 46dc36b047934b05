"""A cluster as Vertex AI's CustomJobSpec, which `gcloud ai custom-jobs` takes.

https://cloud.google.com/vertex-ai/docs/reference/rest/v1/CustomJobSpec
"""

from collections.abc import Mapping
from typing import Any

from components.plan_training.findings import Findings, Section
from components.plan_training.machines import Accelerator, Machine
from components.plan_training.shape import COUNT_KEYS, DEFAULTS, ReplicaPool, Shape
from components.plan_training.spellings.pools import (
    COMMAND,
    read_strategy_flag,
    shape_fields,
    single_image,
    strategy_args,
)
from trainer import Json
from trainer.cluster.roles import ROLES

KEYS = ("workerPoolSpecs", "scheduling", "persistentResourceId")
IGNORED = (
    *("baseOutputDirectory", "serviceAccount", "network", "reservedIpRanges", "tensorboard"),
    *("pscInterfaceConfig", "protectedArtifactLocationId", "labels"),
    *("enableWebAccess", "enableDashboardAccess", "experiment", "experimentRun", "models"),
)
_POOL_KEYS = ("machineSpec", "replicaCount", "containerSpec")
_POOL_IGNORED = ("pythonPackageSpec", "diskSpec", "nfsMounts", "lustreMounts")
_MACHINE_KEYS = ("machineType", "acceleratorType", "acceleratorCount")
_MACHINE_IGNORED = ("gpuPartitionSize", "tpuTopology", "reservationAffinity")
_SCHEDULING_KEYS = ("timeout", "strategy", "restartJobOnWorkerRestart", "disableRetries")
_IS_SPOT = {"STANDARD": False, "SPOT": True, "ON_DEMAND": False, "LOW_COST": True}
NAMES = (
    {
        "strategy": "--strategy in containerSpec.args",
        "persistent_resource": "persistentResourceId",
    }
    | {
        key: f"workerPoolSpecs[{index}].replicaCount"
        for index, key in enumerate(COUNT_KEYS.values())
    }
    | {
        f"{key}.{role}": f"workerPoolSpecs[{index}].machineSpec.{name}"
        for index, role in enumerate(ROLES)
        for key, name in (("machine", "machineType"), ("accelerator", "accelerator"))
    }
)


def camel_case(key: str) -> str:
    """Return `machineSpec` for `machine_spec`: protobuf's JSON allows both."""
    first, *rest = key.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def read(values: Mapping[Any, Any], findings: Findings) -> Json:
    """Return the fields of a Shape."""
    top = Section(
        values,
        path="",
        findings=findings,
        keys=KEYS,
        ignored=IGNORED,
        rename=camel_case,
    )
    specs = top.get("workerPoolSpecs")
    if not isinstance(specs, list) or not 1 <= len(specs) <= len(ROLES):
        findings.errors.append(
            f"workerPoolSpecs is {specs!r}; it must be a list of 1 to {len(ROLES)} pools, in the"
            f" order {', '.join(ROLES)}"
        )
        specs = []
    pools, images, strategies = [], [], []
    for index, (role, spec) in enumerate(zip(ROLES, specs, strict=False)):
        pool, image, strategy = _read_pool(spec, role, index=index, findings=findings)
        pools.append(pool)
        images.append((f"workerPoolSpecs[{index}].containerSpec.imageUri", image))
        strategies.append(strategy)
    fields = shape_fields(pools, strategy=next(filter(None, strategies), ""))
    fields |= {"image": single_image(images, findings)} | _read_scheduling(top)
    fields["persistent_resource"] = top.text("persistentResourceId")
    auto = fields | {"restarts": "auto"}
    is_auto = fields["restarts"] != "never" and (
        Shape(**fields).restarts_whole_job == Shape(**auto).restarts_whole_job
    )
    return auto if is_auto else fields


def write(shape: Shape) -> Json:
    """Return the CustomJobSpec; empty pools in front of others keep their place."""
    pools = {pool.role: pool for pool in shape.vertex_pools()}
    last = max(ROLES.index(role) for role in pools)
    return {
        "workerPoolSpecs": [
            _write_pool(shape, pools[role]) if role in pools else {"replicaCount": 0}
            for role in ROLES[: last + 1]
        ],
        "scheduling": _write_scheduling(shape),
        **({"persistentResourceId": resource} if (resource := shape.persistent_resource) else {}),
    }


def _write_scheduling(shape: Shape) -> Json:
    return {
        "timeout": f"{shape.timeout_seconds}s",
        "strategy": shape.scheduling_strategy,
        "restartJobOnWorkerRestart": shape.restarts_whole_job,
        "disableRetries": shape.restarts == "never",
    }


def _read_pool(
    value: Any, role: str, *, index: int, findings: Findings
) -> tuple[ReplicaPool, str, str]:
    spec = Section(
        value,
        path=f"workerPoolSpecs[{index}]",
        findings=findings,
        keys=_POOL_KEYS,
        ignored=_POOL_IGNORED,
        rename=camel_case,
    )
    count = spec.count("replicaCount")
    if index == 0 and count != 1:
        findings.errors.append(
            f"{spec.name('replicaCount')} is {spec.get('replicaCount')!r}; it must be 1: the"
            " first pool is the chief. Further workers belong in workerPoolSpecs[1]"
        )
    machine = _read_machine(spec, is_required=bool(count))
    container = spec.section("containerSpec", keys=("imageUri", "command", "args", "env"))
    strategy = read_strategy_flag(container, "args")
    if container.get("command") not in (None, COMMAND) or "env" in container:
        findings.warnings.append(
            f"{container.name('command')} and env: ignored; replicas run {' '.join(COMMAND)}"
        )
    return (
        ReplicaPool(role=role, count=count, machine=machine),
        container.text("imageUri"),
        strategy,
    )


def _read_machine(spec: Section, *, is_required: bool) -> Machine:
    machine = spec.section("machineSpec", keys=_MACHINE_KEYS, ignored=_MACHINE_IGNORED)
    if is_required and "machineType" not in machine:
        machine.findings.errors.append(
            f"{machine.name('machineType')} is missing; name a machine type, as n1-standard-4"
        )
    accelerator = None
    if "acceleratorType" in machine:
        count = machine.count("acceleratorCount", default=1, at_least=1)
        accelerator = Accelerator(type=machine.text("acceleratorType"), count=count)
    elif "acceleratorCount" in machine:
        machine.findings.errors.append(
            f"{machine.name('acceleratorCount')} is {machine.get('acceleratorCount')!r}, but"
            " acceleratorType is missing; name a GPU, as NVIDIA_TESLA_T4"
        )
    return Machine(
        type=machine.text("machineType", default=DEFAULTS.machine), accelerator=accelerator
    )


def _read_scheduling(top: Section) -> Json:
    scheduling = top.section("scheduling", keys=_SCHEDULING_KEYS, ignored=("maxWaitDuration",))
    if "timeout" not in scheduling:
        top.findings.warnings.append(
            f"scheduling.timeout is missing: the job gets {DEFAULTS.timeout_seconds}s, not"
            " Vertex AI's 7 days"
        )
    strategy = scheduling.one_of("strategy", _IS_SPOT, default="STANDARD")
    restarts = "auto"
    if "restartJobOnWorkerRestart" in scheduling:
        is_whole = scheduling.flag("restartJobOnWorkerRestart")
        restarts = "whole_job" if is_whole else "replica"
    if scheduling.flag("disableRetries"):
        restarts = "never"
    return {
        "timeout_seconds": scheduling.seconds("timeout", default=DEFAULTS.timeout_seconds),
        "spot": _IS_SPOT[strategy],
        "restarts": restarts,
    }


def _write_pool(shape: Shape, pool: ReplicaPool) -> Json:
    machine: Json = {"machineType": pool.machine.type}
    if gpus := pool.machine.accelerator:
        machine |= {"acceleratorType": gpus.type, "acceleratorCount": gpus.count}
    container: Json = {"imageUri": shape.image, "command": COMMAND}
    container["args"] = strategy_args(shape)
    return {
        "machineSpec": machine,
        "replicaCount": pool.count,
        "containerSpec": {key: value for key, value in container.items() if value},
    }
