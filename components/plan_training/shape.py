"""What a cluster file says: how many replicas of which role, on which machines."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from components.plan_training.machines import Accelerator, Machine

STRATEGIES = ("single", "mirrored", "multi_worker_mirrored", "parameter_server")
# Their replicas wait for each other at every step: one that is lost ends all.
SYNCHRONOUS_CLUSTERS = ("multi_worker_mirrored",)
RESTARTS = ("auto", "replica", "whole_job", "never")
# In the order of Vertex AI's worker pools; what TF_CONFIG calls them, and the key of their number.
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
        is_computing = role == "worker" or (role == "chief" and not self.is_asynchronous)
        return Machine(type=self.machine, accelerator=self.accelerator if is_computing else None)

    def pools(self) -> list[ReplicaPool]:
        """The roles that have replicas."""
        counts = {role: getattr(self, key) for role, key in COUNT_KEYS.items()}
        return [
            ReplicaPool(role=role, count=count, machine=self.machine_of(role))
            for role, count in counts.items()
            if count
        ]

    @property
    def is_asynchronous(self) -> bool:
        """Whether workers compute for parameter servers, and the chief hands out the work."""
        return self.strategy == "parameter_server"

    @property
    def restarts_whole_job(self) -> bool:
        """Whether all replicas start again when one is lost."""
        if self.restarts == "auto":
            return self.spot or self.strategy in SYNCHRONOUS_CLUSTERS
        return self.restarts == "whole_job"

    @property
    def scheduling_strategy(self) -> str:
        """What Vertex AI calls the kind of machines: `STANDARD` or `SPOT`."""
        return "SPOT" if self.spot else "STANDARD"

    def __str__(self) -> str:
        return " + ".join(f"{pool.count} {pool.role}" for pool in self.pools())


DEFAULTS = Shape()
KEYS = tuple(field.name for field in fields(Shape))
