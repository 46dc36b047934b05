"""A cluster as Vertex AI's CustomJobSpec, which `gcloud ai custom-jobs` takes.

https://cloud.google.com/vertex-ai/docs/reference/rest/v1/CustomJobSpec
"""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import model_validator

from components.plan_training.findings import (
    Count,
    FilePart,
    Findings,
    PositiveCount,
    Seconds,
)
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
from trainer.config.settings import Name, OneOf, setting
from trainer.errors import ConfigError

KEYS = ("workerPoolSpecs", "scheduling", "persistentResourceId")
IGNORED = (
    "baseOutputDirectory",
    "serviceAccount",
    "network",
    "reservedIpRanges",
    "tensorboard",
    "pscInterfaceConfig",
    "protectedArtifactLocationId",
    "labels",
    "enableWebAccess",
    "enableDashboardAccess",
    "experiment",
    "experimentRun",
    "models",
)
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


class MachineSpec(FilePart):
    """Machine of a pool."""

    ignored = ("gpuPartitionSize", "tpuTopology", "reservationAffinity")
    machine_type: str = ""
    accelerator_type: Name | None = None
    accelerator_count: PositiveCount | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.accelerator_count and not self.accelerator_type:
            raise ConfigError(
                f"acceleratorCount is {self.accelerator_count}, but acceleratorType is missing;"
                " name a GPU, as NVIDIA_TESLA_T4"
            )
        return self


class ContainerSpec(FilePart):
    """Container of a pool."""

    image_uri: str = ""
    command: list[Any] | None = None
    args: list[str] = []  # noqa: RUF012 - pydantic copies it
    env: Any = None


class WorkerPool(FilePart):
    """Replicas of a role."""

    ignored = ("pythonPackageSpec", "diskSpec", "nfsMounts", "lustreMounts")
    machine_spec: MachineSpec = MachineSpec()
    replica_count: Count = 0
    container_spec: ContainerSpec = ContainerSpec()


class Scheduling(FilePart):
    """Time limit and restarts."""

    ignored = ("maxWaitDuration",)
    timeout: Seconds | None = None
    strategy: Annotated[str, OneOf((*_IS_SPOT,))] = "STANDARD"
    restart_job_on_worker_restart: bool | None = None
    disable_retries: bool = False


class VertexFile(FilePart):
    """A CustomJobSpec."""

    ignored = IGNORED
    worker_pool_specs: list[WorkerPool] = setting(
        "pools",
        form=f"a list of 1 to {len(ROLES)} pools, in the order {', '.join(ROLES)}",
        min_length=1,
        max_length=len(ROLES),
    )
    scheduling: Scheduling = Scheduling()
    persistent_resource_id: str = ""


def read(values: Mapping[Any, Any], findings: Findings) -> Json:
    """Return the fields of a Shape."""
    file = VertexFile.read(values, findings)
    if file is None:
        return {}
    pools, images, strategies = [], [], []
    for index, (role, spec) in enumerate(zip(ROLES, file.worker_pool_specs, strict=False)):
        path = f"workerPoolSpecs[{index}]"
        if index == 0 and spec.replica_count != 1:
            findings.errors.append(
                f"{path}.replicaCount is {spec.replica_count}; it must be 1: the first pool is the"
                " chief. Further workers belong in workerPoolSpecs[1]"
            )
        if spec.replica_count and not spec.machine_spec.machine_type:
            findings.errors.append(
                f"{path}.machineSpec.machineType is missing; name a machine type, as n1-standard-4"
            )
        container = spec.container_spec
        if container.command not in (None, COMMAND) or container.env is not None:
            findings.warnings.append(
                f"{path}.containerSpec.command and env: ignored; replicas run {' '.join(COMMAND)}"
            )
        machine = _machine(spec.machine_spec)
        pools.append(ReplicaPool(role=role, count=spec.replica_count, machine=machine))
        images.append((f"{path}.containerSpec.imageUri", container.image_uri))
        place = f"{path}.containerSpec.args"
        strategies.append(read_strategy_flag(container.args, place, findings))
    fields = shape_fields(pools, strategy=next(filter(None, strategies), ""))
    fields |= {"image": single_image(images, findings)} | _schedule(file.scheduling, findings)
    fields["persistent_resource"] = file.persistent_resource_id
    auto = fields | {"restarts": "auto"}
    is_auto = fields["restarts"] != "never" and (
        Shape.model_construct(**fields).restarts_whole_job
        == Shape.model_construct(**auto).restarts_whole_job
    )
    return auto if is_auto else fields


def _machine(spec: MachineSpec) -> Machine:
    accelerator = None
    if spec.accelerator_type:
        count = spec.accelerator_count or 1
        accelerator = Accelerator(type=spec.accelerator_type, count=count)
    machine = spec.machine_type or DEFAULTS.machine
    return Machine.model_construct(type=machine, accelerator=accelerator)


def _schedule(scheduling: Scheduling, findings: Findings) -> Json:
    if scheduling.timeout is None:
        findings.warnings.append(
            f"scheduling.timeout is missing: the job gets {DEFAULTS.timeout_seconds}s, not"
            " Vertex AI's 7 days"
        )
    restarts = {None: "auto", True: "whole_job", False: "replica"}
    restart = restarts[scheduling.restart_job_on_worker_restart]
    return {
        "timeout_seconds": scheduling.timeout or DEFAULTS.timeout_seconds,
        "spot": _IS_SPOT[scheduling.strategy],
        "restarts": "never" if scheduling.disable_retries else restart,
    }


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
