"""Shape of a cluster: its replicas by role, their machines, and when they restart."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import ValidationInfo, model_validator

from components.plan_training.machines import (
    GPUS,
    MACHINES,
    Accelerator,
    Machine,
    MachineType,
    accelerator_error,
)
from trainer import Json
from trainer.cluster.roles import (
    MAX_REPLICAS,
    STRATEGIES,
    computing_roles,
    find_role_errors,
    is_asynchronous,
    is_synchronous_cluster,
    max_gpus,
)
from trainer.config.settings import MOST_SECONDS, Line, OneOf, Settings, setting
from trainer.errors import ClusterError

# https://github.com/distribution/reference/blob/main/reference.go
IMAGE = {
    "pattern": r"(?:[A-Za-z0-9.-]+(?::\d{1,5})?/)?[a-z0-9]+(?:(?:[._/]|__|-+)[a-z0-9]+)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{32,64})?",
    "form": "a container image, as europe-docker.pkg.dev/my-project/my-images/trainyard:1",
}
# PersistentResourceService.CreatePersistentResource
RESOURCE_ID = {
    "pattern": r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?",
    "form": "the id of a persistent resource of Vertex AI, at most 63 of a-z, 0-9 and '-'",
}
RoleKey = Literal["chief", "workers", "parameter_servers", "evaluators"]
# By role (trainer.cluster.roles.ROLES, in their order): the field with the number of replicas.
COUNT_KEYS: dict[str, RoleKey] = {
    "chief": "chief",
    "worker": "workers",
    "ps": "parameter_servers",
    "evaluator": "evaluators",
}
# Names of the fields of Shape in a file, where they differ, for messages; `machine.ROLE` and
# `accelerator.ROLE` are for the machine and the accelerator of one role.
Names = Mapping[str, str]
SHORT_NAMES: Names = {}
# A key of the context of a validation: the names in the file. A file that has errors already is
# checked without the rules between roles: a mistyped key could be the reason for a missing number.
NAMES, HAS_ERRORS = "names", "has_errors"
_ALWAYS_WRITTEN = ("strategy", "machine", "timeout_seconds")


def _count(help_: str, *, default: int = 0) -> Any:
    return setting(help_, default=default, ge=0, le=MAX_REPLICAS)


@dataclass(frozen=True, kw_only=True)
class ReplicaPool:
    """Replicas of one role, each on a machine of its own."""

    role: str
    count: int
    machine: Machine


class Shape(Settings):
    """Shape of a cluster; a `ClusterSpec` is a shape that can train."""

    strategy: Annotated[str, OneOf((*STRATEGIES,))] = setting(
        "what computes: one replica, the GPUs of one machine, or several machines",
        default="single",
    )
    chief: int = _count(
        "chiefs; 0 if worker 0 is the chief, which Vertex AI names chief", default=1
    )
    workers: int = _count("workers")
    parameter_servers: int = _count("parameter servers")
    evaluators: int = _count("evaluators of the checkpoints; any strategy may have one")
    machine: MachineType = setting("machine type", default="n1-standard-4")
    accelerator: Accelerator | None = setting(
        "GPUs of each replica that computes gradients; the chief of a parameter-server cluster"
        " does not",
        default=None,
        form=GPUS,
    )
    machines: Mapping[RoleKey, Machine] = setting(
        "machines that differ, by the setting with the role's number: {parameter_servers:"
        " n1-highmem-8}",
        default_factory=dict,
    )
    image: Line = setting(
        "container image of all replicas; default: the run's", default="", **IMAGE
    )
    spot: bool = setting(
        "use spot machines, which are cheaper but can be preempted at any time", default=False
    )
    restarts: Literal["auto", "replica", "whole_job", "never"] = setting(
        "what restarts when a replica is lost; auto: the whole job on spot machines and where"
        " replicas wait for each other at every step, else the replica",
        default="auto",
    )
    timeout_seconds: int = setting("time limit of the job", default=7200, ge=1, le=MOST_SECONDS)
    persistent_resource: Line = setting(
        "Vertex AI: id of a persistent resource whose machines the job uses; on this machine it has"
        " no effect",
        default="",
        **RESOURCE_ID,
    )

    def machine_of(self, role: str) -> Machine:
        """Return the machine of each replica of a role."""
        if own := self.machines.get(COUNT_KEYS[role]):
            return own
        has_gpus = role in computing_roles(self.strategy)
        return Machine.model_construct(
            type=self.machine, accelerator=self.accelerator if has_gpus else None
        )

    def counts(self) -> dict[str, int]:
        """Return the number of replicas of each role."""
        return {role: getattr(self, key) for role, key in COUNT_KEYS.items()}

    def pools(self) -> list[ReplicaPool]:
        """Return the pools of the roles that have replicas."""
        return [
            ReplicaPool(role=role, count=count, machine=self.machine_of(role))
            for role, count in self.counts().items()
            if count
        ]

    def vertex_pools(self) -> list[ReplicaPool]:
        """Return the pools as Vertex AI numbers them: worker 0 is the chief if there is none."""
        pools = self.pools()
        if self.chief:
            return pools
        workers, *rest = pools
        chief = ReplicaPool(role="chief", count=1, machine=workers.machine)
        if workers.count > 1:
            rest.insert(
                0, ReplicaPool(role="worker", count=workers.count - 1, machine=workers.machine)
            )
        return [chief, *rest]

    @property
    def is_asynchronous(self) -> bool:
        """True if each worker trains at its own pace, on steps that the chief hands out."""
        return is_asynchronous(self.strategy)

    @property
    def restarts_whole_job(self) -> bool:
        """True if all replicas restart when one is lost."""
        if self.restarts == "auto":
            return self.spot or is_synchronous_cluster(self.strategy)
        return self.restarts == "whole_job"

    @property
    def scheduling_strategy(self) -> str:
        """Vertex AI's name for the kind of machines: `STANDARD` or `SPOT`."""
        return "SPOT" if self.spot else "STANDARD"

    def __str__(self) -> str:
        return " + ".join(f"{pool.count} {pool.role}" for pool in self.pools())


DEFAULTS = Shape()
KEYS = tuple(Shape.model_fields)


class ClusterSpec(Shape):
    """A cluster that can train."""

    group: ClassVar[str] = "cluster"

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        context = info.context or {}
        names = context.get(NAMES, SHORT_NAMES)
        roles = {role: names.get(key, key) for role, key in COUNT_KEYS.items()}
        roles["strategy"] = names.get("strategy", "strategy")
        errors = []
        if not context.get(HAS_ERRORS):
            errors += find_role_errors(self.strategy, self.counts(), names=roles)
        for pool in self.pools():
            field = _name(self, names, "accelerator", pool.role)
            errors.append(accelerator_error(pool.machine, field=field))
        if found := dict.fromkeys(filter(None, errors)):
            raise ClusterError(*found)
        return self

    def to_dict(self) -> Json:
        """Return what differs from the defaults, and always strategy, machine and timeout."""
        return {
            name: value
            for name, value in self.model_dump(mode="json").items()
            if getattr(self, name) != getattr(DEFAULTS, name) or name in _ALWAYS_WRITTEN
        }

    def to_json(self) -> str:
        """Return the pipeline's parameter."""
        return json.dumps(self.to_dict(), sort_keys=True)


def warnings_of(shape: Shape, names: Names = SHORT_NAMES) -> list[str]:
    """Return the warnings of a cluster that can train."""
    unknown = [
        f"{_name(shape, names, 'machine', pool.role)} is {pool.machine.type!r}, which is not known"
        " here: its GPUs and its price cannot be checked"
        for pool in shape.pools()
        if pool.machine.type not in MACHINES
    ]
    return [*dict.fromkeys(unknown), *_idle_gpus(shape, names)]


def _name(shape: Shape, names: Names, key: str, role: str) -> str:
    if name := names.get(f"{key}.{role}"):
        return name
    own = COUNT_KEYS[role]
    return f"machines.{own}.{key}" if own in shape.machines else key


def _idle_gpus(shape: Shape, names: Names) -> Iterator[str]:
    """Yield a warning for each pool with GPUs that would be paid for but not used."""
    for pool in shape.pools():
        gpus, num_used = pool.machine.accelerator, max_gpus(shape.strategy, pool.role)
        if gpus and num_used is not None and num_used < gpus.count:
            yield (
                f"{_name(shape, names, 'accelerator', pool.role)}: under {shape.strategy} each"
                f" {pool.role} uses {num_used} of its {gpus}: the rest costs money but is idle"
            )
