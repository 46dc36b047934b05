"""Shape of a cluster: its replicas by role, their machines, and when they restart."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from components.plan_training.machines import GPUS, Accelerator, Machine, MachineType
from trainer.cluster.roles import (
    MAX_REPLICAS,
    STRATEGIES,
    computing_roles,
    is_asynchronous,
    is_synchronous_cluster,
)
from trainer.config.settings import MOST_SECONDS, Line, OneOf, Settings, setting

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
