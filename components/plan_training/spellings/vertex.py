"""Vertex AI's spelling of a cluster: the CustomJobSpec that `gcloud ai custom-jobs` takes.

https://cloud.google.com/vertex-ai/docs/reference/rest/v1/CustomJobSpec
"""

from collections.abc import Mapping
from typing import Any

from components.plan_training.findings import Findings, Section
from components.plan_training.machines import Accelerator, Machine
from components.plan_training.shape import COUNT_KEYS, DEFAULTS, ReplicaPool, Shape
from components.plan_training.spellings.pools import read_strategy_flag, shape_fields, strategy_args
from trainer.cluster.roles import ROLES

KEYS = ("workerPoolSpecs", "scheduling")
LEFT_OUT = (
    *("baseOutputDirectory", "serviceAccount", "network", "reservedIpRanges", "tensorboard"),
    *("persistentResourceId", "pscInterfaceConfig", "protectedArtifactLocationId", "labels"),
    *("enableWebAccess", "enableDashboardAccess", "experiment", "experimentRun", "models"),
)
_POOL_KEYS = ("machineSpec", "replicaCount", "containerSpec")
_POOL_LEFT_OUT = ("pythonPackageSpec", "diskSpec", "nfsMounts", "lustreMounts")
_MACHINE_KEYS = ("machineType", "acceleratorType", "acceleratorCount")
_MACHINE_LEFT_OUT = ("gpuPartitionSize", "tpuTopology", "reservationAffinity")
_SCHEDULING_KEYS = ("timeout", "strategy", "restartJobOnWorkerRestart", "disableRetries")
_IS_SPOT = {"STANDARD": False, "SPOT": True, "ON_DEMAND": False, "LOW_COST": True}
COMMAND = ["python", "-m", "trainer.task"]
NAMES = (
    {"strategy": "--strategy in containerSpec.args"}
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
    """`machine_spec` as `machineSpec`: both are read, as protobuf's JSON allows."""
    first, *rest = key.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def read(values: Mapping[Any, Any], findings: Findings) -> dict[str, Any]:
    """The fields of a Shape."""
    top = Section(
        values,
        path="",
        findings=findings,
        keys=KEYS,
        left_out=LEFT_OUT,
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
    fields |= {"image": one_image(images, findings)} | _read_scheduling(top)
    usual = Shape(**{**fields, "restarts": "auto"})
    is_usual = fields["restarts"] != "never" and (
        Shape(**fields).restarts_whole_job == usual.restarts_whole_job
    )
    return fields | {"restarts": "auto"} if is_usual else fields


def one_image(images: list[tuple[str, str]], findings: Findings) -> str:
    """The image of all replicas; an error if they have several."""
    given = [(name, image) for name, image in images if image]
    for name, image in given:
        if image != given[0][1]:
            findings.errors.append(
                f"{name} is {image!r}; all replicas have one image, and {given[0][0]} is"
                f" {given[0][1]!r}"
            )
    return given[0][1] if given else ""


def write(shape: Shape) -> dict[str, Any]:
    """The CustomJobSpec; pools without replicas keep the place of those after them."""
    counts = {pool.role: pool for pool in placed_pools(shape)}
    last = max(ROLES.index(role) for role in counts)
    return {
        "workerPoolSpecs": [
            _write_pool(shape, counts[role]) if role in counts else {"replicaCount": 0}
            for role in ROLES[: last + 1]
        ],
        "scheduling": write_scheduling(shape),
    }


def placed_pools(shape: Shape) -> list[ReplicaPool]:
    """The pools as Vertex AI has them: the first is the chief, also where worker 0 is one."""
    pools = shape.pools()
    if shape.chief:
        return pools
    workers, *others = pools
    chief = ReplicaPool(role="chief", count=1, machine=workers.machine)
    rest = ReplicaPool(role="worker", count=workers.count - 1, machine=workers.machine)
    return [chief, rest, *others]


def write_scheduling(shape: Shape) -> dict[str, Any]:
    """How the job is scheduled, limited in time and started again."""
    return {
        "timeout": f"{shape.timeout_seconds}s",
        "strategy": shape.scheduling_strategy,
        "restartJobOnWorkerRestart": shape.restarts_whole_job,
        "disableRetries": shape.restarts == "never",
    }


def _read_pool(
    value: Any, role: str, *, index: int, findings: Findings
) -> tuple[ReplicaPool, str, str]:
    """The pool, its image and the strategy that its arguments name."""
    spec = Section(
        value,
        path=f"workerPoolSpecs[{index}]",
        findings=findings,
        keys=_POOL_KEYS,
        left_out=_POOL_LEFT_OUT,
        rename=camel_case,
    )
    count = spec.count("replicaCount")
    if index == 0 and count != 1:
        findings.errors.append(
            f"{spec.name('replicaCount')} is {spec.get('replicaCount')!r}; it must be 1, for the"
            " first pool is the chief. Further workers belong in workerPoolSpecs[1]"
        )
    machine = _read_machine(spec, is_needed=bool(count))
    container = spec.section("containerSpec", keys=("imageUri", "command", "args", "env"))
    strategy = read_strategy_flag(container, "args")
    if container.get("command") not in (None, COMMAND) or "env" in container:
        findings.warnings.append(
            f"{container.name('command')} and env: left out; the trainer is {' '.join(COMMAND)}"
        )
    return (
        ReplicaPool(role=role, count=count, machine=machine),
        container.text("imageUri"),
        strategy,
    )


def _read_machine(spec: Section, *, is_needed: bool) -> Machine:
    machine = spec.section("machineSpec", keys=_MACHINE_KEYS, left_out=_MACHINE_LEFT_OUT)
    if is_needed and "machineType" not in machine:
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


def _read_scheduling(top: Section) -> dict[str, Any]:
    scheduling = top.section("scheduling", keys=_SCHEDULING_KEYS, left_out=("maxWaitDuration",))
    if "timeout" not in scheduling:
        top.findings.warnings.append(
            f"scheduling.timeout is missing: {DEFAULTS.timeout_seconds}s here, not Vertex AI's"
            " 7 days"
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


def _write_pool(shape: Shape, pool: ReplicaPool) -> dict[str, Any]:
    machine: dict[str, Any] = {"machineType": pool.machine.type}
    if gpus := pool.machine.accelerator:
        machine |= {"acceleratorType": gpus.type, "acceleratorCount": gpus.count}
    container: dict[str, Any] = {"imageUri": shape.image, "command": COMMAND}
    container["args"] = strategy_args(shape)
    return {
        "machineSpec": machine,
        "replicaCount": pool.count,
        "containerSpec": {key: value for key, value in container.items() if value},
    }
