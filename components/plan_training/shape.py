"""What a cluster file says: how many replicas of which role, on which machines."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from components.plan_training.machines import Accelerator, Machine
from trainer.cluster.roles import computing_roles, is_asynchronous, is_synchronous_cluster

RESTARTS = ("auto", "replica", "whole_job", "never")
# By role (trainer.cluster.roles.ROLES, in their order): the field with the number of replicas.
COUNT_KEYS = {
    "chief": "chief",
    "worker": "workers",
    "ps": "parameter_servers",
    "evaluator": "evaluators",
}


@dataclass(frozen=True, kw_only=True)
class ReplicaPool:
    """Replicas of one role, each on a machine of its own."""

    role: str
    count: int
    machine: Machine


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a cluster file says, which may be wrong; `ClusterSpec` is what can be used.

    Attributes:
        chief: 0 for a cluster in which worker 0 is the chief; on Vertex AI, it is called chief.
        evaluators: They measure each checkpoint; they may be added to any strategy.
        accelerator: GPUs of each replica that computes, which is not the chief of workers with
            parameter servers.
        machines: Other machines, by the key of the number of replicas (`parameter_servers`).
        image: The container image of all replicas; empty for that of the run.
        spot: On spot machines, which are cheap and may be taken away at any time.
        restarts: What starts again when a replica is lost; `auto` is the whole job where the
            replicas wait for each other, and on spot machines.
    """

    strategy: str = "single"
    chief: int = 1
    workers: int = 0
    parameter_servers: int = 0
    evaluators: int = 0
    machine: str = "n1-standard-4"
    accelerator: Accelerator | None = None
    machines: Mapping[str, Machine] = field(default_factory=dict)
    image: str = ""
    spot: bool = False
    restarts: str = "auto"
    timeout_seconds: int = 7200

    def machine_of(self, role: str) -> Machine:
        """The machine of each replica of a role."""
        if own := self.machines.get(COUNT_KEYS[role]):
            return own
        is_computing = role in computing_roles(self.strategy)
        return Machine(type=self.machine, accelerator=self.accelerator if is_computing else None)

    def counts(self) -> dict[str, int]:
        """The number of replicas of each role."""
        return {role: getattr(self, key) for role, key in COUNT_KEYS.items()}

    def pools(self) -> list[ReplicaPool]:
        """The roles that have replicas."""
        return [
            ReplicaPool(role=role, count=count, machine=self.machine_of(role))
            for role, count in self.counts().items()
            if count
        ]

    @property
    def is_asynchronous(self) -> bool:
        """Whether workers compute for parameter servers, and the chief hands out the work."""
        return is_asynchronous(self.strategy)

    @property
    def restarts_whole_job(self) -> bool:
        """Whether all replicas start again when one is lost."""
        if self.restarts == "auto":
            return self.spot or is_synchronous_cluster(self.strategy)
        return self.restarts == "whole_job"

    @property
    def scheduling_strategy(self) -> str:
        """What Vertex AI calls the kind of machines: `STANDARD` or `SPOT`."""
        return "SPOT" if self.spot else "STANDARD"

    def __str__(self) -> str:
        return " + ".join(f"{pool.count} {pool.role}" for pool in self.pools())


DEFAULTS = Shape()
KEYS = tuple(field.name for field in fields(Shape))
